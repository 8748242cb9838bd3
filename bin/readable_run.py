"""The run that a command reads: a run directory, or a saved model in its place."""

from __future__ import annotations

import shlex
from typing import Any

from ut_tf.bin.flags import FlagError
from ut_tf.run import Run
from ut_tf.sharing.places import model_folder


def load_run(values: Any) -> Run:
    """The run that ``READ_RUN_DIR`` or ``SAVED_MODEL`` names.

    Args:
      values: of the command's flags; data_dir, tmp_dir and usr_dir count where it has them.

    Raises:
      FlagError: neither is given, or both are.
      UserError: there is no such run or saved model.
    """
    if values.output_dir and values.model:
        raise FlagError(
            f"--output_dir={values.output_dir} and --model={values.model} both name what is read:"
            " leave one of them out."
        )
    if not values.output_dir and not values.model:
        raise FlagError(
            "--output_dir is missing: the run directory, as ut-trainer wrote it; or give a saved"
            " model as --model."
        )
    folders = {name: values[name].value for name in _FOLDERS if name in values}
    return Run.load(model_folder(values.model) if values.model else values.output_dir, **folders)


def evaluation_line(output_dir: str, usr_dir: str | None, *more: str) -> str:
    """The ut-eval command of a run, as it is typed."""
    own = [f"--usr_dir={shlex.quote(usr_dir)}"] if usr_dir else []
    return " ".join(["ut-eval", f"--output_dir={shlex.quote(output_dir)}", *own, *more])


_FOLDERS = ("data_dir", "tmp_dir", "usr_dir")
