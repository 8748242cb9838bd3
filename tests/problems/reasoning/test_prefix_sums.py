"""Prefix sums: right at every position, of the lengths asked for, decided by seed and epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.problems.reasoning.prefix_sums import PrefixSums

NOWHERE = Path("nowhere")
SMALL = PrefixSums(8, train_examples=50, validation_examples=20, test_examples=20)


def bits(**arguments: Any) -> list[tuple[list[int], list[int]]]:
    split = arguments.pop("split", "train")
    return [
        ((row["inputs"] - 2).tolist(), (row["targets"] - 2).tolist())
        for row in SMALL.dataset(split, NOWHERE, **arguments).as_numpy_iterator()
    ]


def test_each_target_is_the_parity_of_the_bits_so_far() -> None:
    examples = bits()
    assert {len(inputs) for inputs, _ in examples} == {*range(1, 9)}
    for inputs, targets in examples:
        assert targets == [sum(inputs[: place + 1]) % 2 for place in range(len(inputs))]


def test_lengths_are_as_asked_for() -> None:
    assert {len(inputs) for inputs, _ in bits(split="test", length=40)} == {40}
    assert [part.length for part in SMALL.evaluation_sets()] == [8, 32]
    assert [part.length for part in SMALL.evaluation_sets((5, 6))] == [5, 6]
    with pytest.raises(UserError, match="`length`=0"):
        SMALL.examples("test", NOWHERE, length=0)
    with pytest.raises(UserError, match="`test_examples`=0"):
        PrefixSums(test_examples=0)


def test_text_and_ids_stand_for_each_other() -> None:
    codec = SMALL.text_codec(NOWHERE)
    ids = codec.encode(tf.constant(["0110", "1"]))["inputs"]
    np.testing.assert_array_equal(ids, [[2, 3, 3, 2], [3, 0, 0, 0]])
    assert codec.decode(ids).numpy().tolist() == [b"0110", b"1"]
    with pytest.raises(UserError, match="bits, line 1: '012'"):
        list(codec.read(["012"], "bits"))
