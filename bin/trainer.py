"""ut-trainer: trains a model on a problem, going on where an earlier call stopped.

``ut-trainer --problem=babi_qa --hparams_set=ut_base``
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

from ut_tf import registry
from ut_tf.bin import flags
from ut_tf.bin.command import (
    EXIT_INTERRUPTED,
    execute,
    import_tensorflow,
    metrics_table,
    registry_page,
    stdout_to_stderr,
)
from ut_tf.bin.flags import Flag, FlagError
from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.storage.layout import checkpoint_steps

COMMAND = "ut-trainer"
DESCRIPTION = """ut-trainer: trains a model on a problem.

  ut-trainer --problem=babi_qa --hparams_set=ut_base

The same command goes on where it stopped. The run directory then holds all that ut-eval needs."""

_TRAINING = "Training"
FLAGS = (
    flags.PROBLEM,
    flags.HPARAMS_SET,
    flags.HPARAMS,
    flags.PROBLEM_ARGS,
    flags.MODEL,
    flags.RANDOM_SEED,
    flags.OUTPUT_DIR,
    flags.DATA_DIR,
    flags.TMP_DIR,
    flags.USR_DIR,
    *flags.FILE_FLAGS,
    Flag(
        "train_steps",
        "Updates to train for, counted from the first.",
        _TRAINING,
        "integer",
        shown_default="the set's",
    ),
    Flag(
        "local_eval_frequency",
        "Updates between evaluations; each one saves a checkpoint.",
        _TRAINING,
        "integer",
        shown_default="the set's eval_frequency",
        aliases=("eval_frequency",),
    ),
    Flag(
        "keep_checkpoint_max",
        "Latest checkpoints kept; the best is kept besides.",
        _TRAINING,
        "integer",
        shown_default="the set's",
    ),
    Flag("log_frequency", "Updates between lines of progress.", _TRAINING, "integer", default=100),
    Flag(
        "num_gpus",
        "GPUs to train on.",
        _TRAINING,
        "integer",
        shown_default="all there are",
        aliases=("worker_gpu",),
    ),
    Flag(
        "warm_start_from",
        "Run directory whose weights a new run starts from.",
        _TRAINING,
        shown_default="none",
    ),
    Flag(
        "schedule",
        "train, evaluate, or continuous_train_and_eval, which is the same as train.",
        _TRAINING,
        default="train",
    ),
    Flag(
        "generate_data",
        "Accepted for tensor2tensor's users: data that is missing is prepared anyway.",
        _TRAINING,
        "boolean",
        default=False,
    ),
    Flag(
        "eval_steps",
        "Accepted for tensor2tensor's users: the whole validation data is judged anyway.",
        _TRAINING,
        "integer",
        shown_default="all",
    ),
    Flag(
        "intra_op_threads",
        "CPU threads of one operation; 1 is fastest for small networks.",
        _TRAINING,
        "integer",
        default=0,
        shown_default="all cores",
    ),
    Flag(
        "inter_op_threads",
        "Operations at once on a CPU.",
        _TRAINING,
        "integer",
        default=0,
        shown_default="TensorFlow's choice",
    ),
    flags.REGISTRY_HELP,
)
_SCHEDULES = {
    "train": "train",
    "continuous_train_and_eval": "train",
    "train_and_evaluate": "train",
    "evaluate": "evaluate",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, FLAGS, lambda: _main(flags.command_line(argv)))


def _main(argv: list[str]) -> int:
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.registry_help:
        if values.usr_dir:
            registry.import_user_code(values.usr_dir)
        print(registry_page())
        return 0
    if _schedule(values.schedule) == "evaluate":
        return _evaluate(values)
    return _train(values)


def checked_run(argv: Sequence[str]) -> Run:
    """Returns the run that these flags would train, all of it checked that can be checked without
    TensorFlow; nothing is begun.

    Raises:
      HelpAsked, FlagError, UserError: as the command itself would.
    """
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.registry_help or _schedule(values.schedule) != "train":
        raise FlagError(
            f"--{'registry_help' if values.registry_help else 'schedule=evaluate'} trains nothing:"
            " leave it out."
        )
    return _checked(values)[0]


def _checked(values: Any) -> tuple[Run, Run | None]:
    """Returns the run and the one that its first weights come from, if any."""
    _check_numbers(values)
    plan = _plan(values)
    return plan, _warm_start_run(values.warm_start_from, plan)


def _train(values: Any) -> int:
    plan, warm_start = _checked(values)
    import_tensorflow()
    from ut_tf.training.distribution import make_strategy
    from ut_tf.training.threads import set_threads
    from ut_tf.training.trainer import train

    set_threads(values.intra_op_threads, values.inter_op_threads)

    # Several workers must find each other before TensorFlow runs anything, and preparing data may
    # run something.
    strategy = make_strategy(values.num_gpus)
    with stdout_to_stderr():
        for idle in plan.hparams.without_effect(values.hparams):
            print(f"{COMMAND}: warning: {idle}.", flush=True)
        run = plan.start()
        print(f"{COMMAND}: {run.problem} with {run.hparams_set} in {run.output_dir}")
        result = train(
            run,
            values.train_steps,
            strategy=strategy,
            log_frequency=values.log_frequency,
            warm_start_from=warm_start,
        )
    print(f"step {result.step}, stopped by {result.stopped_by}")
    if result.metrics:
        print(f"validation at step {result.evaluated_step}:\n{metrics_table(result.metrics)}")
    if result.stopped_by == "signal":
        return EXIT_INTERRUPTED
    print(
        "\nnext: ut-eval"
        f" --output_dir={shlex.quote(values.output_dir or _default_output_dir(values))}"
    )
    return 0


def _plan(values: Any) -> Run:
    for name in ("problem", "hparams_set"):
        if not values[name].value:
            raise FlagError(
                f"--{name} is missing: see {COMMAND} --registry_help for the names and {COMMAND}"
                " --help for the flags."
            )
    return Run.plan(
        values.problem,
        values.hparams_set,
        hparams=_overrides(values),
        output_dir=values.output_dir,
        data_dir=values.data_dir,
        tmp_dir=values.tmp_dir,
        seed=values.random_seed,
        problem_args=flags.problem_arguments(values, [values.problem]),
        usr_dir=values.usr_dir,
        model=values.model,
    )


def _evaluate(values: Any) -> int:
    if not values.output_dir and not (values.problem and values.hparams_set):
        raise FlagError(
            "--schedule=evaluate needs --output_dir, or the --problem and --hparams_set of the run."
        )
    output_dir = values.output_dir or _default_output_dir(values)
    run = Run.load(
        output_dir, data_dir=values.data_dir, tmp_dir=values.tmp_dir, usr_dir=values.usr_dir
    )
    import_tensorflow()
    from ut_tf.evaluation.evaluator import evaluate

    with stdout_to_stderr():
        metrics = evaluate(run.prepare())
    print(metrics_table(metrics))
    return 0


def _schedule(name: str) -> str:
    if name not in _SCHEDULES:
        raise FlagError(
            f"--schedule={name}: expected one of {', '.join(_SCHEDULES)}; to judge a run, use"
            " ut-eval --output_dir=<run>."
        )
    return _SCHEDULES[name]


def _overrides(values: Any) -> str:
    """Returns the overrides with those that have a flag of their own appended."""
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
    """Returns the run to take the first weights from; None where `plan` has checkpoints of its own
    to go on from.
    """
    if not folder or checkpoint_steps(plan.output_dir):
        return None
    try:
        return Run.load(folder)
    except UserError as error:
        raise UserError(f"--warm_start_from={folder}: {error}") from error


def _default_output_dir(values: Any) -> str:
    return f"runs/{values.problem}-{values.hparams_set}"


if __name__ == "__main__":
    sys.exit(main())
