"""The sweeps of ut-eval: a run under exit rules, at recurrent depths, and by difficulty."""

import dataclasses
import json
import textwrap
from collections.abc import Callable
from typing import Any

from ut_tf import registry
from ut_tf.bin.depth_list import depths_in
from ut_tf.bin.eval_frame import (
    COMMAND,
    changed,
    check_known_lengths,
    keep,
    other_checkpoint,
    record_of,
    title,
)
from ut_tf.bin.frame.command import import_tensorflow, tell
from ut_tf.bin.frame.flags import FlagError
from ut_tf.config.hparams import HParams
from ut_tf.run import Run
from ut_tf.storage.layout import BY_DIFFICULTY_FIGURE, DEPTH_SWEEP_FIGURE, EXIT_SWEEP_FIGURE

SWEEPS = ("exit_sweep", "depth_sweep", "by_difficulty")


def sweep_exits(run: Run, values: Any, lengths: tuple[int, ...]) -> str:
    """Judges the run under exit rules, and writes the table; returns the line of JSON."""
    rules = () if values.exit_sweep == "all" else tuple(values.exit_sweep.split(","))
    for rule in rules:
        registry.exit_rules.check(rule)
    import_tensorflow()
    from ut_tf.evaluation.exit_sweep import sweep_exits as sweep

    problem = run.make_problem()
    run = run.prepare(problem)
    check_known_lengths(run, problem, lengths)
    swept = sweep(
        run,
        checkpoint=values.checkpoint,
        lengths=lengths,
        split=values.split,
        problem=problem,
        rules=rules,
        on_point=lambda point, number, count: tell(
            COMMAND, f"evaluated {point.use} ({number} of {count})"
        ),
    )
    note = other_checkpoint(run, values, swept.step)
    print(f"{title(run, values, swept.step)}{note}\n{textwrap.indent(swept.table(), '  ')}")
    from ut_tf.figures.exits import exit_front

    if not run.is_saved_model:
        swept.write(run.output_dir)
        _draw(run, EXIT_SWEEP_FIGURE, lambda: exit_front(swept))
    return json.dumps(swept.to_dict(), allow_nan=False)


def sweep_depths(run: Run, trained: HParams, values: Any, lengths: tuple[int, ...]) -> str:
    """Judges the run at depths, and keeps the table and a record of each depth; returns the line
    of JSON.
    """
    depths = depths_in(values.depth_sweep)
    import_tensorflow()
    from ut_tf.evaluation.depth_sweep import sweep_depths as sweep
    from ut_tf.figures.depths import depth_curves

    problem = run.make_problem()
    run = run.prepare(problem)
    check_known_lengths(run, problem, lengths)
    swept = sweep(
        run,
        depths,
        checkpoint=values.checkpoint,
        lengths=lengths,
        split=values.split,
        problem=problem,
        on_depth=lambda depth: tell(COMMAND, f"evaluated at depth {depth}"),
    )
    note = other_checkpoint(run, values, swept.step)
    split = swept.points[0].measured.split
    print(
        f"{title(run, values, swept.step)}; {split} split; 95% intervals in brackets{note}\n"
        f"{textwrap.indent(swept.table(), '  ')}\n{_READING}"
    )
    if run.is_saved_model:
        return json.dumps(swept.to_dict(), allow_nan=False)
    swept.write(run.output_dir)
    for point in swept.points:
        used = run.in_use(f"{swept.field}={point.depth}").hparams
        record = record_of(run, values.checkpoint, lengths, point.measured, "")
        keep(run, dataclasses.replace(record, hparams=changed(trained, used)))
    _draw(run, DEPTH_SWEEP_FIGURE, lambda: depth_curves(swept))
    return json.dumps(swept.to_dict(), allow_nan=False)


def judge_by_difficulty(run: Run, values: Any, lengths: tuple[int, ...]) -> str:
    """Judges the run's steps beside those of an algorithm; returns the line of JSON."""
    import_tensorflow()
    from ut_tf.evaluation.by_difficulty import judge_by_difficulty as judge
    from ut_tf.figures.difficulty import difficulty_curves

    problem = run.make_problem()
    run = run.prepare(problem)
    check_known_lengths(run, problem, lengths)
    report = judge(run, values.checkpoint, lengths, values.split, problem)
    note = other_checkpoint(run, values, report.step)
    print(
        f"{title(run, values, report.step)}; {report.split} split; 95% intervals in brackets"
        f"{note}\n"
        f"{textwrap.indent(report.table(), '  ')}"
    )
    if not run.is_saved_model:
        report.write(run.output_dir)
        _draw(run, BY_DIFFICULTY_FIGURE, lambda: difficulty_curves(report))
    return json.dumps(report.to_dict(), allow_nan=False)


_READING = """\
residual: mean of |z_t - z_(t-1)| / |z_(t-1)| over positions; changed, found, lost: answers that
differ from the row above, examples that became right, and wrong; ms/example: all steps up to here.
--exit_sweep compares rules that stop each position by itself."""


def _draw(run: Run, name: str, make: Callable[[], Any]) -> None:
    """Draws a sweep beside its table, where matplotlib is installed."""
    from ut_tf.figures.style import is_installed, save

    if not is_installed():
        tell(COMMAND, "pip install matplotlib to have the table as a figure, too.")
        return
    drawn, _ = save(make(), run.output_dir / name)
    tell(COMMAND, f"drawn: {drawn}")


def check_sweeps(values: Any) -> None:
    """Raises FlagError where a sweep and another flag do not go together."""
    for sweep in SWEEPS:
        if values[sweep].value:
            _check_sweep(values, sweep)


def _check_sweep(values: Any, sweep: str) -> None:
    if sweep == "depth_sweep":
        depths_in(values.depth_sweep)
    for flag, given in (
        ("test_problem", values.test_problem),
        ("json=record", values.json == "record"),
        ("hparams=eval_exit", sweep == "exit_sweep" and "eval_exit" in values.hparams),
        *((other, values[other].value) for other in SWEEPS[: SWEEPS.index(sweep)]),
    ):
        if given:
            raise FlagError(f"--{sweep} and --{flag} do not go together: leave one flag out.")
