"""The tables of a model card: figures of all examples, and of the groups that they fall into.

::

    statistics = statistics_of(record.metrics, record.intervals, record.examples, record.groups)
    scores, pondering = parted(statistics)
    tables(scores)

Nothing is said twice: a figure that another one has by its definition is left out, and each
statistic is shown by one way of grouping.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ut_tf.evaluation.metric_names import parse_name, with_set, without_set
from ut_tf.markdown import as_table
from ut_tf.metrics.sums import COMPUTING, PONDERING, group_title
from ut_tf.ordering import natural_order

# By definition: the ponder time of a model whose source ponders is the source's.
_SOURCE_TIME = ("ponder_time", "ponder_time/source")
_MEAN_OVER_GROUPS = "mean_error"
_EXAMPLES = "examples"


class Statistic(NamedTuple):
    """A figure of some examples.

    Fields:
      metric: its name, with the set and the role of positions, without the group.
      feature: of the examples, which groups them; "": all of a set.
      group: as readers see it; "" likewise.
      examples: of the group, or None.
      figure: the text of the value.
      interval: the text of its 95% interval; empty: it has none.
    """

    metric: str
    feature: str
    group: str
    examples: int | None
    figure: str
    interval: str


def statistics_of(
    metrics: Mapping[str, float],
    intervals: Mapping[str, tuple[float, float]] | None = None,
    examples: Mapping[str, int] | None = None,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Statistic]:
    """What was measured, in the order of names and numbers; arguments as of ``Record``. Figures of
    groups that are not described are left out.
    """
    sets, described = examples or {}, groups or {}
    statistics = []
    for name in sorted(metrics, key=natural_order):
        set_name, metric, group = parse_name(name, metrics, sets)
        if _is_said_elsewhere(metric, set_name, metrics, described):
            continue
        everything: Mapping[str, Any] = {"feature": ""}
        known = described.get(with_set(set_name, group)) if group else everything
        if known is None:
            continue
        title = group_title(known["feature"], known["value"]) if group else ""
        bounds = (intervals or {}).get(name)
        statistics.append(
            Statistic(
                with_set(set_name, metric),
                known["feature"],
                title,
                known.get("examples"),
                number(metrics[name]),
                "" if bounds is None else f"[{number(bounds[0])}, {number(bounds[1])}]",
            )
        )
    return statistics


def parted(statistics: Iterable[Statistic]) -> tuple[list[Statistic], list[Statistic]]:
    """Scores, and statistics of pondering; these by one way of grouping, that of pondering where it
    has its own.
    """
    scores: list[Statistic] = []
    pondering: list[Statistic] = []
    for statistic in statistics:
        of_pondering = {*PONDERING, *COMPUTING} & set(statistic.metric.split("/"))
        (pondering if of_pondering else scores).append(statistic)
    of_scores = {statistic.feature for statistic in scores}
    features = list(dict.fromkeys(statistic.feature for statistic in pondering))
    own = [feature for feature in features if feature not in of_scores]
    shown = {"", *(own or features)}
    return scores, [statistic for statistic in pondering if statistic.feature in shown]


def tables(statistics: Sequence[Statistic]) -> str:
    """A table of the figures of all examples, and one for each way of grouping them, in
    Markdown.
    """
    whole = [
        [f"`{statistic.metric}`", statistic.figure, statistic.interval]
        for statistic in statistics
        if not statistic.feature
    ]
    shown = [as_table(["metric", "figure", "95% interval"], whole)] if whole else []
    for feature in dict.fromkeys(statistic.feature for statistic in statistics):
        grouped = [statistic for statistic in statistics if statistic.feature == feature]
        # A single group is all examples.
        if feature and len({statistic.group for statistic in grouped}) > 1:
            shown.append(_grouped_table(grouped))
    return "\n\n".join(shown)


def number(value: float) -> str:
    """A figure with four digits."""
    return f"{value:.4g}"


def _grouped_table(statistics: Sequence[Statistic]) -> str:
    """A row for each group, a column for each metric."""
    metrics = sorted({statistic.metric for statistic in statistics}, key=natural_order)
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for statistic in statistics:
        row = rows[statistic.group]
        row[statistic.metric] = f"{statistic.figure} {statistic.interval}".strip()
        row[_EXAMPLES] = f"{statistic.examples:,}"
    head = ["group", _EXAMPLES, *(f"`{metric}`" for metric in metrics)]
    body = [
        [group, *(rows[group].get(name, "") for name in (_EXAMPLES, *metrics))]
        for group in sorted(rows, key=natural_order)
    ]
    return as_table(head, body)


def _is_said_elsewhere(
    metric: str,
    set_name: str,
    metrics: Mapping[str, float],
    groups: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Whether a metric is by definition another one that is there, too."""
    if metric == _SOURCE_TIME[0]:
        return with_set(set_name, _SOURCE_TIME[1]) in metrics
    if metric != _MEAN_OVER_GROUPS:
        return False
    # Of groups of equal size the mean over groups is that over examples.
    sizes = {
        group["examples"]
        for name, group in groups.items()
        if without_set(set_name, name) == group["value"]
    }
    return len(sizes) == 1
