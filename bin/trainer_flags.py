"""The flags of ut-trainer and the run that they ask for, for the commands that begin trainings."""

from collections.abc import Sequence
from typing import Any

from ut_tf import registry
from ut_tf.bin.frame.config_file import parse_with_config
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flag_values import problem_arguments
from ut_tf.bin.frame.flags import FlagError
from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.storage.layout import checkpoint_steps

COMMAND, DESCRIPTION, FLAGS = declaration("trainer")

_SCHEDULES = {
    "train": "train",
    "continuous_train_and_eval": "train",
    "train_and_evaluate": "train",
    "evaluate": "evaluate",
}


def checked_run(argv: Sequence[str]) -> Run:
    """The run that these flags would train, checked as far as TensorFlow is not needed.

    Raises:
      HelpAsked, FlagError, UserError: as the command itself would.
    """
    values = parse_with_config(COMMAND, DESCRIPTION, FLAGS, argv)
    idle = [name for name in ("registry_help", "plan") if values[name].value]
    if schedule(values.schedule) != "train":
        idle.append("schedule=evaluate")
    if idle:
        raise FlagError(f"--{idle[0]} trains nothing: leave it out.")
    return checked(values)[0]


def checked(values: Any) -> tuple[Run, Run | None]:
    """The run, and the one that its first weights come from, if any."""
    _check_numbers(values)
    plan = _plan(values)
    return plan, _warm_start_run(values.warm_start_from, plan)


def _plan(values: Any) -> Run:
    for name in ("problem", "hparams_set"):
        if not values[name].value:
            raise FlagError(
                f"--{name} is missing: {_fitting(values)}see {COMMAND} --registry_help for the"
                f" names and {COMMAND} --help for the flags."
            )
    return Run.plan(
        values.problem,
        values.hparams_set,
        hparams=_overrides(values),
        output_dir=values.output_dir,
        data_dir=values.data_dir,
        tmp_dir=values.tmp_dir,
        seed=values.random_seed,
        problem_args=problem_arguments(values, [values.problem]),
        usr_dir=values.usr_dir,
        model=values.model,
    )


def _fitting(values: Any) -> str:
    """Names of sets for the problem, if there is one, as the beginning of a sentence."""
    sets = registry.sets_to_begin_with(values.problem)
    verb = "fit" if len(sets) > 1 else "fits"
    return f"{' and '.join(sets)} {verb} {values.problem}; " if sets else ""


def schedule(name: str) -> str:
    """The task that --schedule names: "train" or "evaluate"."""
    if name not in _SCHEDULES:
        raise FlagError(
            f"--schedule={name}: expected one of {', '.join(_SCHEDULES)}; to evaluate a run, use"
            " ut-eval --output_dir=<run>."
        )
    return _SCHEDULES[name]


def _overrides(values: Any) -> str:
    """The overrides, and those that have a flag of their own behind them."""
    own = {
        "eval_frequency": values.local_eval_frequency,
        "keep_checkpoint_max": values.keep_checkpoint_max,
    }
    return ",".join(
        [
            *filter(None, [values.hparams]),
            *(f"{name}={value}" for name, value in own.items() if value is not None),
        ]
    )


def _check_numbers(values: Any) -> None:
    least = {
        "train_steps": 1,
        "log_frequency": 1,
        "num_gpus": 0,
        "intra_op_threads": 0,
        "inter_op_threads": 0,
    }
    for name, bound in least.items():
        value = values[name].value
        if value is not None and value < bound:
            raise FlagError(f"--{name}={value}: expected at least {bound}.")


def _warm_start_run(folder: str | None, plan: Run) -> Run | None:
    """The run to take the first weights from; None: `plan` goes on from its own checkpoints."""
    if not folder or checkpoint_steps(plan.output_dir):
        return None
    try:
        return Run.load(folder, usr_dir=plan.usr_dir)
    except UserError as error:
        raise UserError(f"--warm_start_from={folder}: {error}") from error


def default_output_dir(values: Any) -> str:
    """The run directory where no flag names one."""
    return f"runs/{values.problem}-{values.hparams_set}"
