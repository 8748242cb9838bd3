"""tensorflow-text, which has no wheel for some platforms."""

import importlib
from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError


def tensorflow_text() -> Any:
    """The module.

    Raises:
      UserError: it cannot be imported.
    """
    try:
        return importlib.import_module("tensorflow_text")
    except ImportError as error:
        version = ".".join(tf.__version__.split(".")[:2])
        raise UserError(
            f"subwords in graph need tensorflow-text, which cannot be imported ({error}): pip"
            f" install 'tensorflow-text=={version}.*' (where there is no wheel for this platform,"
            " decode on Linux or macOS; problems without subwords need none of it)."
        ) from error
