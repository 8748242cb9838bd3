"""The headline figure of runs, by problem, model and recipe: the end of a sweep, and the runs that
are in no table.

::

    filled = summarise((run, record) for run in runs for record in last_records(run))

An evaluation has many metrics; its headline is the first of a list of kinds that it
has. Of several sets the last in natural order counts (the greatest length).
"""

from collections.abc import Iterable

from ut_tf.evaluation.records import Record
from ut_tf.ordering import natural_order
from ut_tf.tables.cells import Reading, figure_of, make_cell
from ut_tf.tables.layout import Column, Table
from ut_tf.tables.lines import FilledTable, Line
from ut_tf.tables.runs import FoundRun

# What a reader looks at first: kinds of metrics, the most telling first.
_HEADLINES = (
    "mean_error",
    "error",
    "bleu",
    "f1",
    "seq_acc",
    "target/perplexity",
    "accuracy",
    "perplexity",
    "loss",
)
_FIGURE = "figure"
_TABLE = Table(
    "Other runs",
    lines=("problem", "row", "set", "metric", "note"),
    facts=(),
    titles={"note": "data"},
    figures=(Column(_FIGURE, (_FIGURE,), digits=()),),
)


def headline(record: Record) -> str:
    """The name of the metric that tells most: the headline of a method of user code, or the
    first of known kinds; empty where there is none.
    """
    of_user_code = [kind for kind in record.headlines if kind not in _HEADLINES]
    for kind in (*of_user_code, *_HEADLINES):
        names = [name for name in record.metrics if name == kind or name.endswith("/" + kind)]
        if names:
            return max(names, key=natural_order)
    return next(iter(record.metrics), "")


def last_records(run: FoundRun) -> list[Record]:
    """The last evaluation of a run on its own problem's data and on each other problem's."""
    return list({record.test_problem: record for record in run.records}.values())


def summarise(evaluations: Iterable[tuple[FoundRun, Record]]) -> FilledTable:
    """A table with a line for each problem, model and recipe.

    Runs are summed up together only where the evaluation is the same: its metric, its split, and
    what its data is. Of two with the same seed the one evaluated last counts.

    Args:
      evaluations: each run with one of its evaluations.
    """
    groups: dict[tuple[str, ...], dict[int, Reading]] = {}
    for run, record in sorted(evaluations, key=lambda evaluation: evaluation[1].time):
        if metric := headline(record):
            problem = record.test_problem or run.problem
            group = (problem, run.system, run.recipe, metric, _note(run, record))
            groups.setdefault(group, {})[run.seed] = Reading(
                (figure_of(record, metric),), record.selection, run.folder, record.time
            )
    ordered = sorted(groups, key=lambda group: [natural_order(part) for part in group])
    return FilledTable(
        _TABLE, [Line(group, {_FIGURE: make_cell({"": groups[group]})}) for group in ordered]
    )


def _note(run: FoundRun, record: Record) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in sorted(run.problem_args.items()))
    trained = f"trained on {run.problem}" if record.test_problem else ""
    split = "" if record.split in ("", "test") else f"{record.split} data"
    return "; ".join(filter(None, (record.data_note, trained, arguments, split)))
