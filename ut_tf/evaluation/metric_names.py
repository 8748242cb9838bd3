"""The parts of a metric's name: "<set>/<metric>/<group>".

Example::

    parse_name("length_80/seq_acc", metrics, ["length_80"])    # ("length_80", "seq_acc", "")
    parse_name("ponder_time/question/2", metrics, [""])    # ("", "ponder_time/question", "2")
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ut_tf.metrics.sums import PONDER_ROLES


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


def set_of(name: str, sets: Iterable[str]) -> str:
    """The set that a name of a metric or of a group begins with."""
    return max((known for known in sets if name.startswith(f"{known}/")), key=len, default="")


def without_set(set_name: str, name: str) -> str:
    """The name of a metric or of a group in its set."""
    return name.removeprefix(f"{set_name}/") if set_name else name


def with_set(set_name: str, name: str) -> str:
    """The name of a metric or of a group among those of all sets."""
    return f"{set_name}/{name}" if set_name else name
