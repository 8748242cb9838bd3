"""Tables of examples: from a dataset and back, and the contract that a problem must keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec

ROWS = [[3, 4], [5], [6, 7, 8]]


def generated(examples: list[dict[str, Any]], **signature: Any) -> Any:
    return tf.data.Dataset.from_generator(
        lambda: iter(examples),
        output_signature={name: tf.TensorSpec(*spec) for name, spec in signature.items()},
    )


def test_a_dataset_makes_a_table_and_a_table_the_same_dataset() -> None:
    examples = [
        {"inputs": [[n, n + 1]] * n, "targets": row, "task": n, "word": str(n)}
        for n, row in enumerate(ROWS, start=1)
    ]
    table = ExampleTable.from_dataset(
        generated(
            examples,
            inputs=([None, 2], tf.int32),
            targets=([None], tf.int32),
            task=([], tf.int32),
            word=([], tf.string),
        )
    )
    assert table.lengths.dtype == np.int32
    assert table.lengths.tolist() == [2, 2, 3], "the longer of inputs and targets"
    batch = table.batch(tf.constant([2, 0]))
    assert batch["inputs"].shape == [2, 3, 2]
    assert batch["targets"].numpy().tolist() == [[6, 7, 8], [3, 4, 0]]
    assert batch["task"].numpy().tolist() == [3, 1]
    for given, read in zip(examples, table.dataset().as_numpy_iterator(), strict=True):
        assert read["inputs"].tolist() == given["inputs"]
        assert read["targets"].tolist() == given["targets"]
        assert (read["task"], read["word"].decode()) == (given["task"], given["word"])


def test_every_epoch_of_training_has_an_order_of_its_own() -> None:
    orders = [example_order("train", 50, 3, epoch).tolist() for epoch in (0, 1, 1)]
    assert orders[0] != orders[1] == orders[2] and sorted(orders[0]) == list(range(50))
    assert example_order("test", 50, 3, 1).tolist() == list(range(50))


def test_classes_and_language_models_have_the_length_of_what_they_have() -> None:
    classes = [{"inputs": row, "targets": len(row)} for row in ROWS]
    signature = {"inputs": ([None], tf.int32), "targets": ([], tf.int32)}
    assert ExampleTable.from_dataset(generated(classes, **signature)).lengths.tolist() == [2, 1, 3]
    words = generated([{"targets": row} for row in ROWS], targets=([None], tf.int32))
    assert ExampleTable.from_dataset(words).lengths.tolist() == [2, 1, 3]


def test_more_examples_than_are_read_at_once() -> None:
    rows = tf.data.Dataset.range(2500, output_type=tf.int32).map(
        lambda number: {"inputs": tf.range(number % 7 + 1), "targets": number}
    )
    table = ExampleTable.from_dataset(rows)
    assert table.lengths.tolist() == [number % 7 + 1 for number in range(2500)]
    assert table.batch(tf.constant([1999, 6]))["targets"].numpy().tolist() == [1999, 6]


@pytest.mark.parametrize("static", [True, False])
def test_a_dataset_without_examples_makes_an_empty_table(static: bool) -> None:
    shape = [4 if static else None]
    nothing = generated([], inputs=(shape, tf.int32), targets=([], tf.int32))
    table = ExampleTable.from_dataset(nothing)
    assert len(table) == 0
    assert list(table.dataset()) == []


def test_a_problem_that_defines_dataset_is_told_to_define_examples() -> None:
    with pytest.raises(UserError, match=r"class OfOld defines `dataset`.*from_dataset\(dataset\)"):

        class OfOld(Problem):
            def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
                del data_dir, tmp_dir

            def spec(self, data_dir: Path) -> ProblemSpec:
                raise NotImplementedError

            def dataset(self, split: str, data_dir: Path, *rest: Any) -> Any:  # type: ignore[misc, override]
                raise NotImplementedError

            def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
                raise NotImplementedError
