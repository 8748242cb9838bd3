"""Examples of a problem's test data, and the groups that they belong to."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ut_tf.data.batch_plan import evenly_spaced
from ut_tf.data.pipeline import eval_batches
from ut_tf.data.problem import EvaluationSet
from ut_tf.insights.thinker import MOST_POSITIONS, Thinker
from ut_tf.metrics.sums import group_name, group_title

T = TypeVar("T")

_LOOKED_AT = 20
_BATCH = 32


class Sample(NamedTuple):
    """A test example.

    Fields:
      number: in its split, from 0.
      features: of the example, without padding.
      group: what it is compared by, such as "2 supporting facts"; None: nothing.
    """

    number: int
    features: dict[str, Any]
    group: str | None


def test_set(thinker: Thinker) -> EvaluationSet:
    """The first set that the problem is evaluated on, with examples of any length."""
    return dataclasses.replace(thinker.problem.evaluation_sets()[0], length=None, max_examples=0)


def samples(thinker: Thinker, count: int) -> list[Sample]:
    """At most `count` test examples, of the groups in turn; too long ones are left out."""
    if not count:
        return []
    chosen = test_set(thinker)
    table = thinker.problem.examples(chosen.split, thinker.run.data_dir)
    short = np.flatnonzero(table.lengths <= MOST_POSITIONS)
    numbers = short[evenly_spaced(len(short), _LOOKED_AT * count)].astype(np.int32)
    batch = {name: np.asarray(value) for name, value in table.batch(numbers).items()}
    grouped: dict[str | None, list[Sample]] = {}
    for row, number in enumerate(numbers):
        features = {name: _trimmed(value[row]) for name, value in batch.items()}
        sample = Sample(int(number), features, _group(chosen, thinker, features))
        grouped.setdefault(sample.group, []).append(sample)
    groups = sorted(grouped, key=in_order)
    queues = [_spread(grouped[group], count) for group in _spread(groups, count)]
    turns = [queue[turn] for turn in range(count) for queue in queues if turn < len(queue)]
    return turns[:count]


def batches(thinker: Thinker, count: int) -> Iterator[dict[str, np.ndarray]]:
    """Padded batches of at most `count` test examples, evenly spaced over the split."""
    chosen = dataclasses.replace(test_set(thinker), max_examples=count)
    for batch in eval_batches(thinker.problem, chosen, thinker.run.data_dir, batch_examples=_BATCH):
        yield {name: np.asarray(value) for name, value in batch.items()}


def in_order(group: str | None) -> tuple[int, str]:
    """Sorts groups by the first number in their names."""
    words = (group or "").split()
    return next((int(word) for word in words if word.isdecimal()), 0), group or ""


def _group(chosen: EvaluationSet, thinker: Thinker, features: dict[str, Any]) -> str | None:
    for feature in (chosen.ponder_by, chosen.group_by):
        if feature in features and (name := group_name(features[feature])):
            return group_title(feature, name)
    if thinker.model.spec.has_one_answer:
        return None
    side: Sequence[int] = features["targets" if thinker.is_language_model else "inputs"]
    return f"length {len(side)}"


def _trimmed(value: Any) -> Any:
    """Ids of one example without the padding, or of facts the rows of padding, at their end; a
    number or a text as it is.
    """
    if not np.ndim(value):
        return value
    used = np.flatnonzero(value.reshape(len(value), -1).any(axis=1))
    return value[: used[-1] + 1 if len(used) else 0]


def _spread(values: list[T], count: int) -> list[T]:
    """At most `count` of the values, evenly spaced."""
    return [values[number] for number in evenly_spaced(len(values), count)]
