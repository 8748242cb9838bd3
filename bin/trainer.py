"""ut-trainer: trains a model on a problem, going on where an earlier call stopped.

``ut-trainer --problem=babi_qa --hparams_set=ut_base``
"""

import functools
import shlex
import sys
from typing import Any

from ut_tf import registry
from ut_tf.bin.entry import EXIT_INTERRUPTED
from ut_tf.bin.frame.command import entry_point, import_tensorflow, stdout_to_stderr, tell
from ut_tf.bin.frame.config_file import parse_with_config
from ut_tf.bin.frame.flag_values import check_readable_files, made_for_others
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import evaluation_line
from ut_tf.bin.frame.registry_page import registry_page
from ut_tf.bin.trainer_flags import (
    COMMAND,
    DESCRIPTION,
    FLAGS,
    checked,
    default_output_dir,
    schedule,
)
from ut_tf.bin.training_plan import plan_text
from ut_tf.run import Run
from ut_tf.storage.find_checkpoint import check_checkpoint
from ut_tf.storage.folders import check_writable, no_empty_folders_left
from ut_tf.storage.layout import checkpoint_steps
from ut_tf.training.cluster import join_cluster

_ENDINGS = {
    "train_steps": "trained to step {}",
    "early_stopping": "stopped early at step {}: validation no longer improves",
    "signal": "interrupted at step {}",
}


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> int:
    """Runs the command, given the words of its command line."""
    values = parse_with_config(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.registry_help:
        if values.usr_dir:
            registry.import_user_code(values.usr_dir)
        print(registry_page(values.registry_help))
        return 0
    if schedule(values.schedule) == "evaluate":
        return _evaluate(values)
    plan, warm_start = checked(values)
    if values.plan:
        print(plan_text(plan, values, _made_strategy(values, plan)))
        return 0
    _check_place(plan, warm_start)
    strategy = _made_strategy(values, plan)
    from ut_tf.training.distribution import on_accelerator
    from ut_tf.training.trainer import TrainingInterrupted, train

    # What is trained first may be refused, too.
    with no_empty_folders_left(plan.output_dir), stdout_to_stderr():
        run = plan.start(on_accelerator(strategy))
        print(f"{COMMAND}: {run.problem} with {run.hparams_set} in {run.output_dir}")
        try:
            result = train(
                run,
                values.train_steps,
                strategy=strategy,
                log_frequency=values.log_frequency,
                warm_start_from=warm_start,
            )
        except TrainingInterrupted as interrupted:
            result = interrupted.result
    try:
        _report(values, result, argv)
    except OSError:
        # Who would read it has gone; the checkpoint of a training that was stopped is saved.
        if result.stopped_by != "signal":
            raise
    return EXIT_INTERRUPTED if result.stopped_by == "signal" else 0


def _check_place(plan: Run, warm_start: Run | None) -> None:
    """Refuses flags, folders and files that a training could not use; hints at other problems."""
    # A sweep's trainings, which the same flags are checked for, may run where other folders are.
    check_writable(plan.output_dir)
    check_readable_files(plan.problem, plan.problem_args, plan.data_dir)
    if warm_start is not None:
        check_checkpoint(warm_start.output_dir, "best")
    # What does not suit the problem may be refused later, in words that say less.
    hint = made_for_others(plan.problem, plan.hparams_set)
    if hint and not checkpoint_steps(plan.output_dir):
        tell(COMMAND, hint)


def _made_strategy(values: Any, plan: Run) -> Any:
    """Joins the cluster, sets the threads, and makes the tf.distribute strategy."""
    join_cluster(values.cluster, functools.partial(tell, COMMAND))
    import_tensorflow()
    from ut_tf.training.agreement import check_settings
    from ut_tf.training.distribution import make_strategy, worker_count
    from ut_tf.training.threads import set_threads

    set_threads(values.intra_op_threads, values.inter_op_threads)
    # Several workers must find each other before TensorFlow runs anything, and preparing data may
    # run something.
    if (count := worker_count()) > 1:
        tell(COMMAND, f"this is one of {count} workers; it waits until all of them run")
    strategy = make_strategy(values.num_gpus)
    if count > 1:
        check_settings(strategy, plan, values.train_steps)
    return strategy


def _report(values: Any, result: Any, argv: list[str]) -> None:
    """Prints how the training ended and the next command: the same one, where it was stopped."""
    print(_ENDINGS[result.stopped_by].format(result.step))
    if result.metrics:
        from ut_tf.tables.evaluation_table import metrics_table

        print(f"validation at step {result.evaluated_step}:\n{metrics_table(result.metrics)}")
    place = values.output_dir or default_output_dir(values)
    evaluation = evaluation_line(place, values.usr_dir)
    again = shlex.join([COMMAND, *argv])
    print(f"\nnext: {again if result.stopped_by == 'signal' else evaluation}")


def _evaluate(values: Any) -> int:
    if not values.output_dir and not (values.problem and values.hparams_set):
        raise FlagError(
            "--schedule=evaluate needs --output_dir, or the --problem and --hparams_set of the run."
        )
    output_dir = values.output_dir or default_output_dir(values)
    run = Run.load(
        output_dir, data_dir=values.data_dir, tmp_dir=values.tmp_dir, usr_dir=values.usr_dir
    )
    check_checkpoint(run.output_dir, "best")
    import_tensorflow()
    from ut_tf.evaluation.evaluator import evaluate
    from ut_tf.tables.evaluation_table import metrics_table

    with stdout_to_stderr():
        metrics = evaluate(run.prepare())
    print(metrics_table(metrics))
    return 0


if __name__ == "__main__":
    sys.exit(main())
