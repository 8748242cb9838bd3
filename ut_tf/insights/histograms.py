"""Histograms of ponder times over test examples, in groups of examples.

::

    ponder_histograms(thinker, 200)[0]
    # {"title": "Ponder times by supporting facts", "unit": "steps", "part": "encoder",
    #  "groups": [{"name": "1 supporting fact", "counts": [0, 12, 30, 4]}, ...]}
"""

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.insights.positions import texts_of
from ut_tf.insights.samples import batches, in_order, test_set
from ut_tf.insights.thinker import Thinker
from ut_tf.metrics.sums import group_name, group_title
from ut_tf.symbols import PADDING_ID

_MOST_GROUPS = 12
_LENGTH_GROUPS = 5


def ponder_histograms(thinker: Thinker, count: int) -> list[dict[str, Any]]:
    """The histograms of the ponder times of encoder and decoder, by each of the ways in which the
    examples fall into groups. None where all positions take the same steps by design.

    Args:
      thinker: of the run; its data must be prepared.
      count: test examples at most.
    """
    if not count or not _varies(thinker):
        return []
    parts: dict[str, list[np.ndarray]] = {"encoder": [], "decoder": []}
    labels: list[dict[str, Any]] = []
    for batch in batches(thinker, count):
        features = {
            name: tf.constant(batch[name]) for name in ("inputs", "targets") if name in batch
        }
        details = thinker.model(features, training=False, return_details=True)[1]
        for name, part in (("encoder", details.encoder), ("decoder", details.decoder)):
            if part is not None:
                counted = part.mask.numpy() > 0
                times = part.ponder_times.numpy().astype(int)
                parts[name] += [row[kept] for row, kept in zip(times, counted, strict=True)]
        labels += _labels(thinker, batch)
    groupings = _groupings(labels)
    return [
        _histogram(title, name, times, names)
        for title, names in groupings.items()
        for name, times in parts.items()
        if times
    ]


def _varies(thinker: Thinker) -> bool:
    """Whether ponder times follow from the example."""
    network = thinker.run.hparams.network
    return (
        getattr(network, "halting", "none") != "none"
        or getattr(network, "eval_exit", "none") != "none"
        or getattr(network, "steps_per_position", 0.0) > 0
    )


def _labels(thinker: Thinker, batch: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """For each example its group by each way of grouping: a text, or its length as a number."""
    chosen = test_set(thinker)
    side = batch["targets" if thinker.is_language_model else "inputs"]
    filled = (side != PADDING_ID).reshape(*side.shape[:2], -1).any(axis=-1)
    labels: list[dict[str, Any]] = [{"length": int(length)} for length in filled.sum(axis=1)]
    for feature in dict.fromkeys((chosen.ponder_by, chosen.group_by)):
        if feature in batch:
            for label, value in zip(labels, batch[feature], strict=True):
                label[feature] = group_title(feature, group_name(value))
    if thinker.model.spec.targets == "class":
        answers = texts_of(thinker.codec.decode(tf.constant(batch["targets"], tf.int32)))
        for label, answer in zip(labels, answers, strict=True):
            label["answer"] = answer
    return labels


def _groupings(labels: list[dict[str, Any]]) -> dict[str, list[str | None]]:
    """By title the name of each example's group; None: it is in none of those that are shown."""
    groupings: dict[str, list[str | None]] = {}
    for feature in labels[0]:
        if feature == "length":
            continue
        values = [label[feature] for label in labels]
        shown = {value for value, _ in Counter(values).most_common(_MOST_GROUPS)}
        if len(shown) > 1 and not any(_same_groups(values, names) for names in groupings.values()):
            title = f"Ponder times by {feature.replace('_', ' ')}"
            groupings[title] = [value if value in shown else None for value in values]
    lengths = np.array([label["length"] for label in labels])
    groupings["Ponder times by length"] = list(_length_groups(lengths))
    return groupings


def _same_groups(first: list[Any], second: list[Any]) -> bool:
    """Whether two ways of grouping differ in names alone."""
    pairs = set(zip(first, second, strict=True))
    return len(pairs) == len(set(first)) == len(set(second))


def _length_groups(lengths: np.ndarray) -> list[str]:
    """The name of each length's group; the groups have about as many examples each."""
    distinct = np.unique(lengths)
    bounds = np.unique(np.quantile(lengths, np.linspace(0, 1, _LENGTH_GROUPS + 1)[1:]).round())
    if len(distinct) <= _LENGTH_GROUPS:
        bounds = distinct
    places = np.searchsorted(bounds, lengths)
    names = {
        place: _range(lengths[places == place].min(), lengths[places == place].max())
        for place in np.unique(places)
    }
    return [names[place] for place in places]


def _range(low: int, high: int) -> str:
    return f"length {low}" if low == high else f"length {low} to {high}"


def _histogram(
    title: str, part: str, times: list[np.ndarray], names: list[str | None]
) -> dict[str, Any]:
    grouped: dict[str, list[np.ndarray]] = defaultdict(list)
    for name, example in zip(names, times, strict=True):
        if name is not None:
            grouped[name].append(example)
    longest = max(int(example.max(initial=0)) for example in times)
    groups = [
        {
            "name": name,
            "counts": np.bincount(np.concatenate(grouped[name]), minlength=longest + 1).tolist(),
        }
        for name in sorted(grouped, key=in_order)
    ]
    return {"title": title, "unit": "steps", "part": part, "groups": groups}
