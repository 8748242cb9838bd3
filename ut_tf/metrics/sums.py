"""Figures that follow from sums over examples, and the sums of a set.

Example::

    sums = GroupedSums({"error": Metric(("correct", "examples"), percent_wrong, share=True)})
    sums.add({"correct": [1.0, 0.0]}, weights=[1.0, 1.0], groups=[1, 2])
    sums.metrics()    # {"error": 50.0, "error/1": 0.0, "error/2": 100.0}
    sums.intervals()  # {"error": (9.5, 90.5), "error/1": (0.0, 79.3), ...}

One function gives the figure of all examples, of a group, and of the samples that an interval is
computed from. Sums are float64.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ut_tf.metrics.intervals import Floats, Interval, middle, resampled_sums, wilson


@dataclass(frozen=True)
class Metric:
    """A figure that follows from sums over examples.

    Args:
      sums: names of what is added up; "examples" is their number.
      value: from those sums, each float64 [...], to the metric, float64 [...].
      share: whether it is the share of the examples in which something holds, the first sum
        counting them among the second; it then has Wilson's interval, otherwise a bootstrap's.
      grouped: whether groups of examples have it too.
      spread: whether it is a standard deviation, which only ut-eval reports.
      where_any: whether it is left out where its second sum is 0.
    """

    sums: tuple[str, ...]
    value: Callable[..., Floats]
    share: bool = False
    grouped: bool = False
    spread: bool = False
    where_any: bool = False


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """The quotient of two sums; no number where the second is 0."""
    empty = np.full(np.shape(numerator), np.nan)
    return np.asarray(
        np.divide(numerator, denominator, out=empty, where=np.asarray(denominator) != 0)
    )


def percent_wrong(correct: Floats, examples: Floats) -> Floats:
    """The percentage of the examples that are not correct."""
    # Counted before it is divided: 50 of 1000 are 5 percent and not 5.000000000000004, which would
    # be above bAbI's limit.
    return ratio(100.0 * (examples - correct), examples)


def perplexity(loss: Floats, count: Floats) -> Floats:
    """e to the mean loss."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(ratio(loss, count)))


def deviation(total: Floats, squares: Floats, count: Floats) -> Floats:
    """The standard deviation, from the sums of values and of their squares."""
    return np.sqrt(np.maximum(ratio(squares, count) - ratio(total, count) ** 2, 0.0))


PONDERING = {
    "ponder_time": Metric(("ponder_time", "ponder_positions"), ratio, grouped=True),
    "ponder_time_std": Metric(
        ("ponder_time", "ponder_squares", "ponder_positions"), deviation, grouped=True, spread=True
    ),
}
"""Metrics of ``per_example.pondering``: they are added where the examples have its sums."""

PONDER_ROLES = ("question", "facts", "source", "source_end", "target", "target_end")
"""The roles of positions; those of ``per_example.pondering_roles`` have "ponder_time/<role>"."""

COMPUTING = {"compute_share": Metric(("computed_steps", "full_steps"), ratio)}
"""Those of ``per_example.computing`` likewise."""


@dataclass(frozen=True)
class Group:
    """A group of the examples of a set.

    Args:
      feature: name of the examples' feature that groups them ("task").
      value: of that feature, as text.
      examples: their number.
    """

    feature: str
    value: str
    examples: int


class GroupedSums:
    """Keeps what was measured per example, and adds it up over all examples and over each group of
    them.

    Args:
      metrics: name -> metric.
      ponder_by: name of the grouping of ponder times: its groups are reported as
        "ponder_time/<ponder_by>_<group>".
      group_by: name of the grouping of all metrics.
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        ponder_by: str | None = None,
        group_by: str | None = None,
    ) -> None:
        self._metrics = metrics
        self._ponder_by = ponder_by
        self._group_by = group_by
        self._columns: defaultdict[str, list[Floats]] = defaultdict(list)
        self._groups: list[Any] = []
        self._ponder_groups: list[Any] = []

    def add(
        self,
        per_example: Mapping[str, Any],
        weights: Any,
        groups: Any | None = None,
        ponder_groups: Any | None = None,
    ) -> None:
        """Adds a batch.

        Args:
          per_example: name -> float [batch].
          weights: float [batch]; examples of weight 0 do not count.
          groups: [batch], integers or strings: the group of each example, "" where it is in
            none; None: no groups.
          ponder_groups: likewise, for ponder times alone.
        """
        real = np.asarray(weights) > 0
        for name, value in per_example.items():
            self._columns[name].append(np.asarray(value, np.float64)[real])
        self._columns["examples"].append(np.ones(int(real.sum())))
        for kept, given in ((self._groups, groups), (self._ponder_groups, ponder_groups)):
            if given is not None:
                kept.append([group_name(group) for group in np.asarray(given)[real]])

    @property
    def examples(self) -> int:
        """The number of examples added, those of weight 0 left out."""
        return sum(map(len, self._columns["examples"]))

    def groups(self) -> dict[str, Group]:
        """The groups by the name that ends their metrics; those of ponder times only where there
        are such times.
        """
        named: dict[str, Group] = {}
        ponder_groups = self._ponder_groups if "ponder_time" in self._columns else []
        for feature, groups, prefix in (
            (self._group_by or "", self._groups, ""),
            (self._ponder_by or "", ponder_groups, f"{self._ponder_by}_"),
        ):
            values, counts = np.unique(
                np.concatenate(groups) if groups else np.zeros(0, np.str_), return_counts=True
            )
            for value, count in zip(values.tolist(), counts.tolist(), strict=True):
                if not value:
                    continue
                named[f"{prefix}{value}"] = Group(feature, value, count)
        return named

    def metrics(self, spreads: bool = True) -> dict[str, float]:
        """The metrics by name, those of groups as "<metric>/<group>".

        Args:
          spreads: whether standard deviations (ponder_time_std) are among them.
        """
        return {
            name: float(metric.value(*(values[column].sum() for column in metric.sums)))
            for metrics, values in self._parts()
            for name, metric in metrics.items()
            if spreads or not metric.spread
        }

    def intervals(self) -> dict[str, Interval]:
        """The intervals of those ``metrics`` that have one."""
        intervals: dict[str, Interval | None] = {}
        for metrics, values in self._parts():
            resampled = _resampled(metrics, values)
            for name, metric in metrics.items():
                if metric.share:
                    intervals[name] = _share_interval(metric, values)
                else:
                    intervals[name] = _bootstrap_interval(metric, resampled)
        return {name: interval for name, interval in intervals.items() if interval is not None}

    def _parts(self) -> Iterator[tuple[dict[str, Metric], dict[str, Floats]]]:
        """Yields metrics by full name, and the values per example [examples] that they are computed
        from: all first, then groups.
        """
        columns = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        pondering = PONDERING if "ponder_time" in columns else {}
        computing = COMPUTING if "computed_steps" in columns else {}
        roles = _role_metrics(columns)
        own = {
            name: metric
            for name, metric in self._metrics.items()
            if not metric.where_any or columns[metric.sums[1]].any()
        }
        metrics = {**own, **pondering, **computing}
        yield {**metrics, **roles}, columns
        of_groups = {name: metric for name, metric in metrics.items() if metric.grouped}
        yield from _by_group(of_groups, columns, self._groups, "")
        pondering = {**pondering, **roles}
        yield from _by_group(pondering, columns, self._ponder_groups, f"{self._ponder_by}_")


def _role_metrics(columns: Mapping[str, Floats]) -> dict[str, Metric]:
    """The mean ponder time of each role that a position has."""
    return {
        f"ponder_time/{role}": Metric((f"ponder_time/{role}", f"ponder_positions/{role}"), ratio)
        for role in PONDER_ROLES
        if f"ponder_positions/{role}" in columns and columns[f"ponder_positions/{role}"].any()
    }


def _by_group(
    metrics: Mapping[str, Metric], columns: Mapping[str, Floats], groups: list[Any], prefix: str
) -> Iterator[tuple[dict[str, Metric], dict[str, Floats]]]:
    names = np.concatenate(groups) if groups and metrics else np.zeros(0, np.str_)
    for group in filter(None, np.unique(names).tolist()):
        named = {f"{name}/{prefix}{group}": metric for name, metric in metrics.items()}
        yield named, {name: values[names == group] for name, values in columns.items()}


def _resampled(metrics: Mapping[str, Metric], values: Mapping[str, Floats]) -> dict[str, Floats]:
    """Sums by name, [resamples], of samples of the examples; nothing where there are too
    few examples to tell a spread.
    """
    names = sorted(
        {name for metric in metrics.values() if not metric.share for name in metric.sums}
    )
    if not names or len(values["examples"]) < 2:
        return {}
    sums = resampled_sums(np.stack([values[name] for name in names], axis=1))
    return dict(zip(names, sums.T, strict=True))


def _bootstrap_interval(metric: Metric, resampled: Mapping[str, Floats]) -> Interval | None:
    return middle(metric.value(*(resampled[name] for name in metric.sums))) if resampled else None


def _share_interval(metric: Metric, values: Mapping[str, Floats]) -> Interval | None:
    successes, trials = (round(float(values[name].sum())) for name in metric.sums)
    if not trials:
        return None
    low, high = sorted(metric.value(np.array(wilson(successes, trials)), np.ones(2)).tolist())
    return low, high


def group_name(group: Any) -> str:
    """The name of a group in those of metrics: the value of the feature, an integer
    or a string, as text.
    """
    return group.decode() if isinstance(group, bytes) else str(group)


def group_title(feature: str, value: str) -> str:
    """A group as readers see it: "task 3", or of a feature that counts "1 supporting fact"."""
    words = feature.replace("_", " ")
    counts = words.endswith("s") and not words.endswith("ss") and value.isdecimal()
    if not counts:
        return f"{words} {value}".strip()
    return f"{value} {words.removesuffix('s') if value == '1' else words}"
