"""The parts of a metric's name: "<set>/<metric>/<group>".

Example::

    parse_name("length_80/seq_acc", metrics, ["length_80"])    # ("length_80", "seq_acc", "")
    parse_name("ponder_time/question/2", metrics, [""])    # ("", "ponder_time/question", "2")
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ut_tf.metrics.sums import PONDER_ROLES

# Over the groups of "error": of a single group they say nothing new.
_OVER_GROUPS = frozenset({"mean_error", "failed_tasks"})


class MetricName(NamedTuple):
    """What a metric's name says.

    Fields:
      set_name: of the evaluation set; "" where it has none.
      metric: without the set and the group, with the role of positions ("ponder_time/question").
      group: of the examples in the set; "": all of them.
    """

    set_name: str
    metric: str
    group: str


def parse_name(name: str, metrics: Collection[str], sets: Iterable[str]) -> MetricName:
    """The parts of one of the names of `metrics`, which were measured on `sets`."""
    set_name = set_of(name, sets)
    whole = name
    while "/" in whole:
        whole, _, last = whole.rpartition("/")
        if whole in metrics and last not in PONDER_ROLES:
            group = name.removeprefix(f"{whole}/")
            return MetricName(set_name, without_set(set_name, whole), group)
    return MetricName(set_name, without_set(set_name, name), "")


def telling(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without those that tell nothing: of the only group there is, over the errors of a
    single group, and a compute_share of 1.
    """
    parsed = {name: parse_name(name, metrics, ()) for name in metrics}
    groups = Counter(map(_grouping, parsed.values()))
    return {
        name: value
        for name, value in metrics.items()
        if not (parsed[name].group and groups[_grouping(parsed[name])] == 1)
        and not (name in _OVER_GROUPS and groups["error", ""] == 1)
        and not (name.endswith("compute_share") and value == 1.0)
    }


def _grouping(name: MetricName) -> tuple[str, str | None]:
    """The metric and what its groups are by, such as "supporting_facts" for supporting_facts_2;
    None: it is not grouped.
    """
    return name.metric, name.group.rpartition("_")[0] if name.group else None


def set_of(name: str, sets: Iterable[str]) -> str:
    """The set that a name of a metric or of a group begins with."""
    return max((known for known in sets if name.startswith(f"{known}/")), key=len, default="")


def without_set(set_name: str, name: str) -> str:
    """The name of a metric or of a group in its set."""
    return name.removeprefix(f"{set_name}/") if set_name else name


def with_set(set_name: str, name: str) -> str:
    """The name of a metric or of a group among those of all sets."""
    return f"{set_name}/{name}" if set_name else name
