"""ut-eval: evaluates a trained run; needs nothing but its directory.

``ut-eval --output_dir=runs/babi_qa-ut_base``
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf import registry
from ut_tf.bin.eval_frame import (
    COMMAND,
    changed,
    check_known_lengths,
    keep,
    other_checkpoint,
    record_of,
    title,
)
from ut_tf.bin.eval_sweeps import (
    SWEEPS,
    check_sweeps,
    judge_by_difficulty,
    sweep_depths,
    sweep_exits,
)
from ut_tf.bin.frame import flags, shared_flags
from ut_tf.bin.frame.command import entry_point, import_tensorflow, stdout_to_stderr, tell
from ut_tf.bin.frame.flag_values import check_readable_files, check_split, decode_config
from ut_tf.bin.frame.flags import Flag, FlagError
from ut_tf.bin.frame.readable_run import load_runs
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

DESCRIPTION = """ut-eval: evaluates a trained run on the sets that its problem names.

  ut-eval --output_dir=runs/babi_qa-ut_base
  ut-eval --output_dir=runs/copy --lengths=40,80,400 > metrics.json
  ut-eval --output_dir=runs/task1 --test_problem=babi_sim_task1
  ut-eval --output_dir=runs/task1 --hparams=eval_num_steps=8
  ut-eval --output_dir=runs/ende --decode_hparams=alpha=1.2
  ut-eval --output_dir=runs/task1-1 --output_dir=runs/task1-2
  ut-eval --output_dir=runs/task1 --exit_sweep
  ut-eval --output_dir=runs/task1 --depth_sweep=1,2,4..64
  ut-eval --output_dir=runs/sudoku --by_difficulty
  ut-eval --output_dir=runs/task1 --figures
  ut-eval --model=babi

The table goes to standard error. It shows metrics with 95% intervals, which cover the choice of the
test examples, and groups of examples as columns. Standard output gets one line, a JSON object with
every metric, where it is a file or a pipe; in a terminal only with --json.
The results are added to evaluations.jsonl in the run directory; a saved model stays as it is. Of
several runs, whose probabilities are averaged, they are added to ensembles.jsonl in the first."""

_RUN_FIGURES = "{output_dir}/figures"
FLAGS = (
    Flag(
        "checkpoint",
        "best (by validation), last, a step's number, or the path of a checkpoint.",
        "What",
        default="best",
        aliases=("checkpoint_path",),
    ),
    Flag(
        "lengths",
        "Lengths of the examples, such as 40,80,400, for problems that generate them by length.",
        "What",
        default="",
        shown_default="the problem's",
    ),
    Flag(
        "json",
        "Prints the JSON line in a terminal, too, and says what it holds: metrics (name and number;"
        " also --json alone), or record (the line added to evaluations.jsonl, with the intervals).",
        "What",
        default="",
        shown_default="metrics in a file or a pipe, no line in a terminal",
        alone="metrics",
    ),
    Flag(
        "split",
        "Split to evaluate on: train, validation or test.",
        "What",
        shown_default="the problem's",
    ),
    Flag(
        "test_problem",
        "Registered name of another problem: its test texts are read with the run's vocabulary, and"
        " the answers compared as text.",
        "What",
        shown_default="the run's problem",
    ),
    Flag(
        "test_problem_args",
        "Arguments of the other problem, name=value,name=value.",
        "What",
        default="",
        shown_default="none",
    ),
    Flag(
        "decode_hparams",
        "Options for problems that have texts written, name=value,name=value, such as"
        " beam_size=8,alpha=1.2: as of ut-decoder, in place of the problem's.",
        "What",
        default="",
        shown_default="the problem's",
    ),
    Flag(
        "exit_sweep",
        "Compares exit rules at some thresholds: names such as kl,state_difference, or alone for"
        " all that the model can take; the table is kept in exit_sweep.csv and exit_sweep.json.",
        "What",
        default="",
        shown_default="none",
        alone="all",
    ),
    Flag(
        "depth_sweep",
        "Evaluates at many recurrent depths: 1,2,3,8, with ranges of every depth (1..32) or doubled"
        " ones (1,2,4..512); the table is kept in depth_sweep.csv and depth_sweep.json.",
        "What",
        default="",
        shown_default="none",
    ),
    Flag(
        "by_difficulty",
        "Compares each position's steps with those that an algorithm needs, of problems whose depth"
        " is known; the table is kept in by_difficulty.csv and by_difficulty.json.",
        "What",
        "boolean",
        default=False,
    ),
    Flag(
        "figures",
        "Draws the results (SVG and PNG) into this folder: by length, by group, ponder times,"
        " confusion of answers; needs pip install matplotlib.",
        "What",
        default="",
        shown_default="none; alone: figures/ in the run directory",
        alone=_RUN_FIGURES,
    ),
    shared_flags.HPARAMS_IN_USE,
    shared_flags.READ_RUN_DIRS,
    shared_flags.SAVED_MODEL,
    shared_flags.RUN_PROBLEM,
    shared_flags.RUN_HPARAMS_SET,
    shared_flags.RUN_DATA_DIR,
    shared_flags.RUN_TMP_DIR,
    shared_flags.RUN_USR_DIR,
)


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
    _check_decode(values)
    _check_figures(values)
    _check_several(values)
    with stdout_to_stderr():
        runs = load_runs(values)
        # With the run's user code, which may have a strategy of its own.
        decode_config(values.decode_hparams)
        trained = runs[0].hparams
        run, *others = (one.in_use(values.hparams) for one in runs)
        for one in runs:
            check_checkpoint(one.output_dir, values.checkpoint)
        other = values.test_problem
        check_split(values.split, other or run.problem, with_train=not other)
        if values.figures:
            # Before the evaluation, which takes long and leaves a record.
            check_writable(_figures_folder(run, values), "figures")
        line = (
            sweep_exits(run, values, lengths)
            if values.exit_sweep
            else sweep_depths(run, trained, values, lengths)
            if values.depth_sweep
            else judge_by_difficulty(run, values, lengths)
            if values.by_difficulty
            else _judge(run, trained, values, lengths, others)
        )
    if values.json or not sys.stdout.isatty():
        print(line)


def _judge(
    run: Run, trained: HParams, values: Any, lengths: tuple[int, ...], others: Sequence[Run]
) -> str:
    """Judges the run, averaged with the others, and keeps a record; returns the line of JSON."""
    other = f"{values.test_problem} {values.test_problem_args}".rstrip()
    other = other if values.test_problem else ""
    # Read once: a training may remove the checkpoint before the figures are drawn.
    loaded = _load(run, values) if values.figures else None
    measured = (
        _measure_transfer(run, values) if other else _measure(run, values, lengths, others, loaded)
    )
    note = (
        f"\nthe mean of {', '.join(measured.ensemble)}"
        if measured.ensemble
        else other_checkpoint(run, values, measured.step)
    )
    print(
        f"{title(run, values, measured.step, other)}; {measured.split} split; 95% intervals in"
        f" brackets{note}\n{_table(measured)}"
    )
    record = dataclasses.replace(
        record_of(run, values.checkpoint, lengths, measured, other),
        hparams=changed(trained, run.hparams),
    )
    if not run.is_saved_model:
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
        drawn, _ = save(figure, folder / name)
        tell(COMMAND, f"drawn: {drawn}")


def _figures_folder(run: Run, values: Any) -> Path:
    return expanded(values.figures.replace("{output_dir}", str(run.output_dir)))


def _check_figures(values: Any) -> None:
    if not values.figures:
        return
    for flag in ("test_problem", *SWEEPS):
        if values[flag].value:
            raise FlagError(f"--figures and --{flag} do not go together: leave one flag out.")
    if values.model and values.figures == _RUN_FIGURES:
        raise FlagError("--figures needs a folder beside --model, such as --figures=figures.")
    from ut_tf.figures.style import check_installed

    check_installed()


def _check_several(values: Any) -> None:
    if len(values.output_dir or ()) < 2:
        return
    for flag in ("test_problem", *SWEEPS, "figures"):
        if values[flag].value:
            raise FlagError(
                f"--{flag} is for one run: leave all but one --output_dir, or --{flag}, out."
            )


def _check_decode(values: Any) -> None:
    if not values.decode_hparams:
        return
    for flag in ("test_problem", *SWEEPS):
        if values[flag].value:
            raise FlagError(
                f"--decode_hparams and --{flag} do not go together: leave one flag out."
            )


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
    run: Run,
    values: Any,
    lengths: tuple[int, ...],
    others: Sequence[Run],
    loaded: LoadedCheckpoint | None,
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
        others=others,
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
