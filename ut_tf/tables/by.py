"""Metrics of runs over length, depth or difficulty, and how far their steps are from an oracle's.

::

    panels = panels_by(find_runs(places)[0], "depth")
    panels["parity_40: accuracy"]["UT, ut_parity, trained at 8"][16]    # [0.93, 0.95], two seeds
    print(panels_text(panels))

Lengths are those of ut-eval's records, depths those of depth_sweep.json, difficulties and regret
those of by_difficulty.json. Runs that differ in their seed alone share a line.
"""

import json
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ut_tf.errors import UserError, file_errors
from ut_tf.evaluation.records import latest_of_best
from ut_tf.factories import make_problem
from ut_tf.markdown import as_table
from ut_tf.storage.files import read_bounded
from ut_tf.storage.layout import BY_DIFFICULTY, DEPTH_SWEEP
from ut_tf.tables.layout import NOTHING
from ut_tf.tables.runs import FoundRun, of_folders
from ut_tf.tables.summary import headline

Panels = dict[str, dict[str, dict[Any, list[float]]]]
"""Panel -> line -> place -> a value of each seed."""
_Spots = Iterator[tuple[str, str, Any, float]]
"""Panel, line, place and value."""


def panels_by(runs: Sequence[FoundRun], by: str) -> Panels:
    """The values of runs.

    Args:
      runs: as ``find_runs`` gives them.
      by: one of ``BY``. Of "regret" a panel is a problem, a line a way to stop, and the places are
        "wasted", "too_many", "too_few" and "accuracy".

    Raises:
      UserError: no run has such values, or a file cannot be read.
    """
    panels: Panels = {}
    # Evaluations are of a use, files of a run directory.
    for run in runs if by == "length" else of_folders(runs):
        for panel, line, place, value in _SPOTS[by](run):
            panels.setdefault(panel, {}).setdefault(line, {}).setdefault(place, []).append(value)
    if not panels:
        flag = {"length": "lengths=40,80", "depth": "depth_sweep=1,2,4..32"}.get(
            by, "by_difficulty"
        )
        raise UserError(f"no run has values by {by}: evaluate some with ut-eval, {flag}.")
    return panels


def panels_text(panels: Panels) -> str:
    """The panels as tables in Markdown: the mean over the seeds, and how many they are."""
    parts = []
    for panel, lines in panels.items():
        places = list(dict.fromkeys(place for line in lines.values() for place in line))
        places.sort(key=lambda place: place if isinstance(place, int) else 0)
        rows = [[name, *(_cell(line.get(at, ())) for at in places)] for name, line in lines.items()]
        parts.append(f"## {panel}\n\n{as_table(['', *map(str, places)], rows, padded=True)}")
    return "\n\n".join(parts)


def _cell(values: Sequence[float]) -> str:
    seeds = f" ({len(values)} seeds)" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4g}{seeds}" if values else NOTHING


def _by_length(run: FoundRun) -> _Spots:
    found: dict[tuple[str, int], float] = {}
    for record in latest_of_best(run.records):
        kind = headline(record).rpartition("/")[2]
        for name, value in record.metrics.items():
            if match := re.fullmatch(rf"[a-z]+_(\d+)/{kind}", name):
                found[kind, int(match[1])] = value
    try:
        problem = make_problem(run.problem, dict(run.problem_args)) if found else None
    except UserError:
        problem = None  # That of code which is not here.
    most = getattr(problem, "max_size", None) or getattr(problem, "max_length", None)
    trained = f", trained up to {most}" if most else ""
    for (kind, length), value in sorted(found.items()):
        yield f"{run.problem}: {kind}{trained}", f"{run.system}, {run.recipe}", length, value


def _by_depth(run: FoundRun) -> _Spots:
    for sweep in _read(run, DEPTH_SWEEP):
        trained = next(point["depth"] for point in sweep["points"] if point["trained"])
        line = f"{run.system}, {run.recipe}, trained at {trained}"
        for point in sweep["points"]:
            for name in sweep["headlines"]:
                yield f"{run.problem}: {name}", line, point["depth"], point["metrics"][name]


def _by_difficulty(run: FoundRun) -> _Spots:
    for report in _read(run, BY_DIFFICULTY):
        line = f"{run.recipe}: {report['form']}"
        for point in report["points"]:
            for name in ("accuracy", "steps", "final"):
                yield f"{run.problem}: {name}", line, point["difficulty"], point["metrics"][name]


def _regret(run: FoundRun) -> _Spots:
    for report in _read(run, BY_DIFFICULTY):
        exits = ", trained to exit" if report.get("trained_to_exit") else ""
        for name in ("wasted", "too_many", "too_few", "accuracy"):
            yield f"{run.problem}{exits}", report["form"], name, report["totals"][name]


_SPOTS: Mapping[str, Callable[[FoundRun], _Spots]] = {
    "length": _by_length,
    "depth": _by_depth,
    "difficulty": _by_difficulty,
    "regret": _regret,
}
BY = tuple(_SPOTS)


def _read(run: FoundRun, stem: str) -> Iterator[dict[str, Any]]:
    """The values of a run's sweep, and of those of other uses beside it."""
    for path in sorted(run.folder.glob(f"{stem}*.json"), key=lambda path: path.stem):
        with file_errors(path, "write it anew", also=(ValueError, RecursionError)):
            values = json.loads(read_bounded(path))
        yield values
