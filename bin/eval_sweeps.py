"""The sweeps of ut-eval: a run under exit rules, at recurrent depths, and by difficulty."""

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
from ut_tf.storage.layout import EXIT_SWEEP

SWEEPS = ("exit_sweep", "depth_sweep", "by_difficulty", "compute")
# They may choose the rules and depths of --compute.
_CHOOSING = ("exit_sweep", "depth_sweep")


def sweep_depths(run: Run, trained: HParams, values: Any, lengths: tuple[int, ...]) -> str:
    """Judges the run at depths, keeps the table and a record of each; returns the line of JSON."""
    depths = depths_in(values.depth_sweep)
    import_tensorflow()
    from ut_tf.evaluation.depth_sweep import sweep_depths as sweep
    from ut_tf.figures.depths import depth_curves

    run, asked = _prepared(run, values, lengths)
    swept = sweep(
        run, depths, **asked, on_depth=lambda depth: tell(COMMAND, f"evaluated at depth {depth}")
    )
    for point in swept.points:
        used = run.in_use(f"{swept.field}={point.depth}")
        keep(used, record_of(used, values.checkpoint, lengths, point.measured, trained))
    split = swept.points[0].measured.split
    return _shown(run, values, swept, depth_curves, split, below=f"\n{_READING}")


def sweep_uses(run: Run, trained: HParams, values: Any, lengths: tuple[int, ...]) -> str:
    """Judges the run under exit rules or, by --compute, in all uses against what they cost, of each
    of which a record is kept, too; keeps the table, and returns the line of JSON.
    """
    depths = depths_in(values.depth_sweep) if values.depth_sweep else ()
    rules = _rules_in(values.exit_sweep or "all")
    import_tensorflow()
    from ut_tf.evaluation.compute import sweep_compute
    from ut_tf.evaluation.oracle import ORACLE
    from ut_tf.figures.exits import compute_front

    run, asked = _prepared(run, values, lengths)

    def on_point(use: str, number: int, count: int) -> None:
        tell(COMMAND, f"evaluated {use} ({number} of {count})")

    exits_only = not values.compute
    swept = sweep_compute(run, depths, rules, **asked, on_point=on_point, exits_only=exits_only)
    for point in swept.points:
        if values.compute and point.curve != ORACLE:
            used = run.in_use(point.use)
            keep(used, record_of(used, values.checkpoint, lengths, point.measured, trained))
    name = "" if values.compute else EXIT_SWEEP
    return _shown(run, values, swept, compute_front, swept.points[0].measured.split, name)


def judge_by_difficulty(run: Run, trained: HParams, values: Any, lengths: tuple[int, ...]) -> str:
    """Judges the run's steps beside those of an algorithm; returns the line of JSON. What is found
    in another use than the trained one has files of its own.
    """
    import_tensorflow()
    from ut_tf.evaluation.by_difficulty import judge_by_difficulty as judge
    from ut_tf.figures.difficulty import difficulty_curves

    run, asked = _prepared(run, values, lengths)
    report = judge(run, **asked)
    name = "-".join(filter(None, [report.stem, changed(trained, run.hparams)]))
    return _shown(run, values, report, difficulty_curves, report.split, name)


_READING = """\
residual: mean of |z_t - z_(t-1)| / |z_(t-1)| over positions; changed, found, lost: answers that
differ from the row above, examples that became right, and wrong; ms/example: all steps up to here.
--exit_sweep compares rules that stop each position by itself."""


def _prepared(run: Run, values: Any, lengths: tuple[int, ...]) -> tuple[Run, dict[str, Any]]:
    """Returns the run with data, and the arguments that all sweeps take."""
    problem = run.make_problem()
    run = run.prepare(problem)
    check_known_lengths(run, problem, lengths)
    asked = {"checkpoint": values.checkpoint, "lengths": lengths, "split": values.split}
    return run, {**asked, "problem": problem}


def _shown(
    run: Run,
    values: Any,
    swept: Any,
    figure: Callable[[Any], Any],
    split: str = "",
    name: str = "",
    below: str = "",
) -> str:
    """Prints the table of a sweep, and writes and draws it into the directory of a run; returns the
    line of JSON. One of a named split has intervals; `name` is as of ``Sweep.write``.
    """
    about = f"; {split} split; 95% intervals in brackets" if split else ""
    note = other_checkpoint(run, values, swept.step)
    table = textwrap.indent(swept.table(), "  ")
    print(f"{title(run, values, swept.step)}{about}{note}\n{table}{below}")
    from ut_tf.figures.style import is_installed, save

    if not run.is_saved_model:
        swept.write(run.output_dir, name)
        if is_installed():
            drawn, *_ = save(figure(swept), run.output_dir / (name or swept.stem))
            tell(COMMAND, f"drawn: {drawn}")
        else:
            tell(COMMAND, "pip install matplotlib to have the table as a figure, too.")
    return json.dumps(swept.to_dict(), allow_nan=False)


def _rules_in(text: str) -> tuple[str, ...]:
    """The exit rules of a flag's value; none: all that a model can take."""
    rules = () if text == "all" else tuple(text.split(","))
    for rule in rules:
        registry.exit_rules.check(rule)
    return rules


def check_sweeps(values: Any) -> None:
    """Raises FlagError where a sweep and another flag do not go together."""
    for sweep in SWEEPS:
        if values[sweep].value:
            _check_sweep(values, sweep)


def _check_sweep(values: Any, sweep: str) -> None:
    if sweep == "depth_sweep":
        depths_in(values.depth_sweep)
    others = SWEEPS[: SWEEPS.index(sweep)]
    if values.compute:
        others = tuple(other for other in others if other not in _CHOOSING)
    for flag, given in (
        ("test_problem", values.test_problem),
        ("json=record", values.json == "record"),
        ("hparams=eval_exit", sweep == "exit_sweep" and "eval_exit" in values.hparams),
        *((other, values[other].value) for other in others),
    ):
        if given:
            raise FlagError(f"--{sweep} and --{flag} do not go together: leave one flag out.")
