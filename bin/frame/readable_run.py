"""The run that a command reads: a run directory, or a saved model in its place."""

import shlex
from typing import Any

from ut_tf import registry
from ut_tf.bin.frame.flags import FlagError
from ut_tf.run import Run
from ut_tf.sharing.places import model_folder

_FOLDERS = ("data_dir", "tmp_dir", "usr_dir")
_OF_RUN = ("problem", "hparams_set")


def load_run(values: Any) -> Run:
    """The run that ``READ_RUN_DIR`` or ``SAVED_MODEL`` names.

    Args:
      values: of the command's flags; data_dir, tmp_dir and usr_dir count where it has them, and
        problem and hparams_set must be the run's. With a run directory, so may --model be the name
        of the run's model, as in tensor2tensor's commands.

    Raises:
      FlagError: neither is given, or both are; or a flag says something else than the run.
      UserError: there is no such run or saved model.
    """
    output_dir = values.output_dir
    names_model = bool(values.model) and values.model in registry.models.names()
    if not output_dir and not values.model:
        raise FlagError(
            "--output_dir is missing: the run directory, as ut-trainer wrote it; or give a saved"
            " model as --model."
        )
    if output_dir and values.model and not names_model:
        raise FlagError(
            f"--output_dir={output_dir} and --model={values.model} both name what is read:"
            " leave one of them out."
        )
    folders = {name: values[name].value for name in _FOLDERS if name in values}
    run = Run.load(output_dir or model_folder(values.model), **folders)
    own = {"problem": run.problem, "hparams_set": run.hparams_set}
    given = {name: values[name].value for name in _OF_RUN if name in values}
    if output_dir and values.model:
        own["model"], given["model"] = run.hparams.model, values.model
    for name, value in given.items():
        if value and value != own[name]:
            raise FlagError(
                f"--{name}={value}: the run in {run.output_dir} has {own[name]}; leave --{name}"
                " out."
            )
    return run


def evaluation_line(
    output_dir: str, usr_dir: str | None, *more: str, command: str = "ut-eval"
) -> str:
    """The command that reads a run next, as it is typed."""
    read = f"--output_dir={shlex.quote(output_dir)}"
    return " ".join([command, read, *usr_dir_words(usr_dir), *more])


def usr_dir_words(usr_dir: str | None) -> list[str]:
    """The flag that names user code, as it is typed; none without such code."""
    return [f"--usr_dir={shlex.quote(usr_dir)}"] if usr_dir else []
