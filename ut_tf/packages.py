"""Packages that not everybody needs: the sentence that says how to install one.

::

    check_package("matplotlib", "figures need")
    metrics = imported("sacrebleu.metrics", "scores on text need", package="sacrebleu")
"""

import importlib
import importlib.util
from typing import Any

from ut_tf.errors import UserError


def check_package(module: str, need: str, package: str = "", otherwise: str = "") -> None:
    """Raises UserError where a package is not installed.

    Args:
      module: its top-level module.
      need: what is needed for, with a verb: "figures need".
      package: its name for pip; empty: that of the module.
      otherwise: what else can be done; empty: nothing.
    """
    if importlib.util.find_spec(module) is None:
        raise _missing(need, package or module, otherwise)


def imported(module: str, need: str, package: str = "") -> Any:
    """The module; arguments and errors as of ``check_package``, but that `module` may be within
    a package.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(need, package or module.partition(".")[0]) from error


def _missing(need: str, package: str, otherwise: str = "") -> UserError:
    choice = f", or {otherwise}" if otherwise else ""
    return UserError(f"{need} {package}, which is not installed: pip install {package}{choice}.")
