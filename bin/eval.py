"""ut-eval: evaluates a trained run; needs nothing but its directory.

``ut-eval --output_dir=runs/babi_qa-ut_base``
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf import registry
from ut_tf.bin.eval_frame import check_known_lengths, keep, other_checkpoint, record_of, title
from ut_tf.bin.eval_sweeps import (
    SWEEPS,
    check_sweeps,
    judge_by_difficulty,
    sweep_depths,
    sweep_uses,
)
from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point, import_tensorflow, stdout_to_stderr, tell
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flag_values import check_readable_files, check_split, decode_config
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import load_run
from ut_tf.bin.frame.terminal import width_of
from ut_tf.config.hparams import HParams
from ut_tf.data.arguments import absolute_files, check_argument_names
from ut_tf.data.problem import check_lengths
from ut_tf.factories import parse_problem_args
from ut_tf.paths import expanded
from ut_tf.problems.catalogue import PROBLEMS
from ut_tf.run import Run
from ut_tf.storage.find_checkpoint import check_checkpoint
from ut_tf.storage.folders import check_writable

if TYPE_CHECKING:
    from ut_tf.evaluation.measurement import CheckpointMeasurement
    from ut_tf.run_weights import LoadedCheckpoint

COMMAND, DESCRIPTION, FLAGS = declaration("eval")

_MOST_SLOTS = 65_536
_RUN_FIGURES = "{output_dir}/figures"


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    lengths = flags.integers(values.lengths, "lengths")
    check_lengths(lengths)
    if values.json not in ("", "metrics", "record"):
        raise FlagError(f"--json={values.json}: expected metrics or record.")
    _check_test_problem(values)
    check_sweeps(values)
    _check_alone(values, "decode_hparams")
    _check_alone(values, "metrics")
    _check_alone(values, "figures")
    _check_alone(values, "refill")
    if not 0 <= values.refill <= _MOST_SLOTS:
        raise FlagError(
            f"--refill={values.refill}: expected a number of slots, at most {_MOST_SLOTS}."
        )
    _check_figures(values)
    with stdout_to_stderr():
        run = load_run(values)
        # With the run's user code, which may have a strategy of its own.
        decode_config(values.decode_hparams)
        trained, run = run.hparams, run.in_use(values.hparams)
        check_checkpoint(run.output_dir, values.checkpoint)
        other = values.test_problem
        check_split(values.split, other or run.problem, with_train=not other)
        if values.figures:
            # Before the evaluation, which takes long and leaves a record.
            check_writable(_figures_folder(run, values), "figures")
        line = (
            sweep_uses(run, trained, values, lengths)
            if values.compute or values.exit_sweep
            else sweep_depths(run, trained, values, lengths)
            if values.depth_sweep
            else judge_by_difficulty(run, trained, values, lengths)
            if values.by_difficulty
            else _judge(run, trained, values, lengths)
        )
    if values.json or not sys.stdout.isatty():
        print(line)


def _judge(run: Run, trained: HParams, values: Any, lengths: tuple[int, ...]) -> str:
    """Judges the run, and keeps a record; returns the line of JSON."""
    other = f"{values.test_problem} {values.test_problem_args}".rstrip()
    other = other if values.test_problem else ""
    # Read once: a training may remove the checkpoint before the figures are drawn.
    loaded = _load(run, values) if values.figures else None
    measured = _measure_transfer(run, values) if other else _measure(run, values, lengths, loaded)
    note = other_checkpoint(run, values, measured.step)
    print(
        f"{title(run, values, measured.step, other)}; {measured.split} split; 95% intervals in"
        f" brackets{note}\n{_table(measured)}"
    )
    record = record_of(run, values.checkpoint, lengths, measured, trained, other)
    keep(run, record)
    if loaded is not None:
        _draw(run, values, lengths, measured, loaded)
    return record.to_json() if values.json == "record" else json_line(measured.metrics)


def _table(measured: CheckpointMeasurement) -> str:
    # Metrics import numpy, which --help need not wait for.
    from ut_tf.tables.evaluation_table import metrics_table

    return metrics_table(
        measured.metrics,
        measured.intervals,
        measured.examples,
        measured.groups,
        measured.headlines,
        width_of(sys.stderr),
    )


def _draw(
    run: Run,
    values: Any,
    lengths: tuple[int, ...],
    measured: CheckpointMeasurement,
    loaded: LoadedCheckpoint,
) -> None:
    """Draws the results into the folder of --figures."""
    from ut_tf.evaluation.evaluator import chosen_sets
    from ut_tf.evaluation.observations import observe_checkpoint
    from ut_tf.figures.evaluations import evaluation_figures
    from ut_tf.figures.style import save

    problem = run.make_problem()
    run = run.prepare(problem)
    observed = observe_checkpoint(run, problem, loaded, lengths, values.split)
    sets = chosen_sets(run, problem, lengths, values.split)
    folder = _figures_folder(run, values)
    for name, figure in evaluation_figures(measured, sets, observed).items():
        drawn, *_ = save(figure, folder / name)
        tell(COMMAND, f"drawn: {drawn}")


def _figures_folder(run: Run, values: Any) -> Path:
    return expanded(values.figures.replace("{output_dir}", str(run.output_dir)))


def _check_alone(values: Any, name: str) -> None:
    """Raises FlagError where a flag is given with another kind of evaluation."""
    for flag in ("test_problem", *SWEEPS):
        if values[name].value and values[flag].value:
            raise FlagError(f"--{name} and --{flag} do not go together: leave one flag out.")


def _check_figures(values: Any) -> None:
    if not values.figures:
        return
    if values.model and values.figures == _RUN_FIGURES:
        raise FlagError("--figures needs a folder beside --model, such as --figures=figures.")
    from ut_tf.figures.style import check_installed

    check_installed()


def _check_test_problem(values: Any) -> None:
    if values.test_problem_args and not values.test_problem:
        raise FlagError(
            f"--test_problem_args={values.test_problem_args} needs a --test_problem, whose"
            " arguments they are."
        )
    if values.test_problem and values.lengths:
        raise FlagError(
            f"--lengths={values.lengths} with --test_problem: another problem's texts have their"
            " own lengths; leave one flag out."
        )
    if values.test_problem not in PROBLEMS or values.test_problem_args:
        return
    if "source_files" in registry.problems.file_arguments(values.test_problem):
        raise FlagError(
            f"--test_problem={values.test_problem} reads your own files: name them with"
            " --test_problem_args=source_files=FILE."
        )


def _load(run: Run, values: Any) -> LoadedCheckpoint:
    import_tensorflow()
    from ut_tf.run_weights import load_checkpoint

    return load_checkpoint(run, values.checkpoint)


def _measure(
    run: Run, values: Any, lengths: tuple[int, ...], loaded: LoadedCheckpoint | None
) -> CheckpointMeasurement:
    import_tensorflow()
    from ut_tf.evaluation.evaluator import measure_checkpoint

    problem = run.make_problem()
    run = run.prepare(problem)
    check_known_lengths(run, problem, lengths)
    return measure_checkpoint(
        run,
        checkpoint=loaded or values.checkpoint,
        lengths=lengths,
        split=values.split,
        problem=problem,
        decode=values.decode_hparams,
        refill=values.refill,
        metrics=values.metrics,
    )


def _measure_transfer(run: Run, values: Any) -> CheckpointMeasurement:
    registry.problems.check(values.test_problem)
    given = parse_problem_args(values.test_problem_args, "test_problem_args")
    check_argument_names(values.test_problem, given)
    arguments = absolute_files(values.test_problem, given)
    check_readable_files(values.test_problem, arguments, run.data_dir)
    import_tensorflow()
    from ut_tf.evaluation.transfer import measure_transfer

    return measure_transfer(run, values.test_problem, arguments, values.checkpoint, values.split)


def json_line(metrics: Mapping[str, float]) -> str:
    """The metrics as one line of JSON, sorted by name; what is not finite is null, since
    JSON has no word for it.
    """
    numbers = {
        name: float(value) if math.isfinite(value) else None for name, value in metrics.items()
    }
    return json.dumps(numbers, sort_keys=True, allow_nan=False)


if __name__ == "__main__":
    sys.exit(main())
