"""What was measured per example, kept until the end of a set, and the metrics that follow from it.

How it is used::

    sums = GroupedSums(ponder_by="supporting_facts")
    sums.add({"loss": [0.1, 2.3], "correct": [1.0, 0.0]}, weights=[1.0, 1.0], groups=[1, 2],
        ponder_groups=[1, 3])
    sums.metrics("classify")  # {"loss": 1.2, "error": 50.0, "error/1": 0.0, "error/2": 100.0}
    # {"loss": (0.1, 2.3), "error": (9.5, 90.5), "error/1": (0.0, 79.3), ...}
    sums.intervals("classify")

How it works: a metric is a function of a few sums over examples (losses, symbols that are right,
symbols that count), so that the same function serves all examples, a group of them, and the samples
that an interval is computed from. Sums are float64.
"""

from __future__ import annotations

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
      share: whether it tells the share of the examples in which something holds, the first sum
        counting them among the second.
      spread: whether it is a standard deviation.
    """

    sums: tuple[str, ...]
    value: Callable[..., Floats]
    share: bool = False
    spread: bool = False


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    empty = np.full(np.shape(numerator), np.nan)
    return np.asarray(
        np.divide(numerator, denominator, out=empty, where=np.asarray(denominator) != 0)
    )


def _percent_wrong(correct: Floats, examples: Floats) -> Floats:
    # Counted before it is divided: 50 of 1000 are 5 percent and not 5.000000000000004, which would
    # be above bAbI's limit.
    return _ratio(100.0 * (examples - correct), examples)


def _perplexity(loss: Floats, count: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(_ratio(loss, count)))


def _deviation(total: Floats, squares: Floats, count: Floats) -> Floats:
    return np.sqrt(np.maximum(_ratio(squares, count) - _ratio(total, count) ** 2, 0.0))


_PER_SYMBOL = {
    "loss": Metric(("loss", "positions"), _ratio),
    "accuracy": Metric(("correct", "positions"), _ratio),
}
_PONDERING = {
    "ponder_time": Metric(("ponder_time", "ponder_positions"), _ratio),
    "ponder_time_std": Metric(
        ("ponder_time", "ponder_squares", "ponder_positions"), _deviation, spread=True
    ),
}
_METRICS: dict[str, dict[str, Metric]] = {
    "classify": {
        "loss": Metric(("loss", "examples"), _ratio),
        "error": Metric(("correct", "examples"), _percent_wrong, share=True),
    },
    "teacher_forced": {
        **_PER_SYMBOL,
        "seq_accuracy": Metric(("all_correct", "examples"), _ratio, share=True),
    },
    "last_word": {
        **_PER_SYMBOL,
        "perplexity": Metric(("loss", "positions"), _perplexity),
        "target/loss": Metric(("target_loss", "examples"), _ratio),
        "target/perplexity": Metric(("target_loss", "examples"), _perplexity),
        "target/accuracy": Metric(("target_correct", "examples"), _ratio, share=True),
    },
    "ranking": {
        "loss": _PER_SYMBOL["loss"],
        "accuracy": Metric(("outranks", "examples"), _ratio, share=True),
    },
    "greedy": {
        "char_acc": _PER_SYMBOL["accuracy"],
        "seq_acc": Metric(("all_correct", "examples"), _ratio, share=True),
    },
}
_OF_GROUPS = ("error", "accuracy", "char_acc", "seq_acc", "target/accuracy", *_PONDERING)


class GroupedSums:
    """Keeps what was measured per example, and adds it up over all examples and over each group of
    them.

    Args:
      ponder_by: name of the grouping of ponder times: its groups are reported as
        "ponder_time/<ponder_by>_<group>".
    """

    def __init__(self, ponder_by: str | None = None) -> None:
        self._ponder_by = ponder_by
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
          groups: [batch], integers or strings: the group of each example; None: no groups.
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

    def metrics(self, method: str, spreads: bool = True) -> dict[str, float]:
        """Returns the metrics of `method` (see the evaluator's head), those of groups as
        "<metric>/<group>".

        Args:
          method: that the examples were judged by.
          spreads: whether standard deviations (ponder_time_std) are among them.
        """
        return {
            name: float(metric.value(*(values[one].sum() for one in metric.sums)))
            for metrics, values in self._parts(method)
            for name, metric in metrics.items()
            if spreads or not metric.spread
        }

    def intervals(self, method: str) -> dict[str, Interval]:
        """Returns the intervals of those ``metrics`` of `method` that have one: Wilson's of shares,
        otherwise by bootstrap.
        """
        found: dict[str, Interval | None] = {}
        for metrics, values in self._parts(method):
            resampled = _resampled(metrics, values)
            for name, metric in metrics.items():
                found[name] = (
                    _share_interval(metric, values)
                    if metric.share
                    else _bootstrap_interval(metric, resampled)
                )
        return {name: interval for name, interval in found.items() if interval is not None}

    def _parts(self, method: str) -> Iterator[tuple[dict[str, Metric], dict[str, Floats]]]:
        """Yields metrics by full name, and the values per example [examples] that they are computed
        from: all first, then groups.
        """
        columns = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        metrics = {**_METRICS[method], **(_PONDERING if "ponder_time" in columns else {})}
        yield metrics, columns
        of_groups = {name: metric for name, metric in metrics.items() if name in _OF_GROUPS}
        yield from _by_group(of_groups, columns, self._groups, "")
        pondering = {name: metric for name, metric in metrics.items() if name in _PONDERING}
        yield from _by_group(pondering, columns, self._ponder_groups, f"{self._ponder_by}_")


def _by_group(
    metrics: Mapping[str, Metric], columns: Mapping[str, Floats], groups: list[Any], prefix: str
) -> Iterator[tuple[dict[str, Metric], dict[str, Floats]]]:
    names = np.concatenate(groups) if groups and metrics else np.zeros(0, np.str_)
    for group in np.unique(names):
        named = {f"{name}/{prefix}{group}": metric for name, metric in metrics.items()}
        yield named, {name: values[names == group] for name, values in columns.items()}


def _resampled(metrics: Mapping[str, Metric], values: Mapping[str, Floats]) -> dict[str, Floats]:
    """Returns sums by name, [resamples], of samples of the examples; nothing where there are too
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
    """Returns what a group is called in the names of metrics: the value of the feature, an integer
    or a string, as text.
    """
    return group.decode() if isinstance(group, bytes) else str(group)
