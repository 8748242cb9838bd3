"""Ponder times by what positions hold."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.evaluation.methods.batches import pondering_roles
from ut_tf.metrics.sums import Group, GroupedSums
from ut_tf.problem_spec import ProblemSpec


class StoryProblem(Problem):
    """Two stories with their questions, of one and of three facts; the class is always 2."""

    name = "stories"

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Nothing."""

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("facts", "class", 12, 12, max_words=1)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        del lengths
        return [EvaluationSet("", "test", "classify", group_by="support", ponder_by="support")]

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        del split, data_dir, seed, epoch, length
        columns = {
            "inputs": tf.constant([[[3], [9], [0], [0]], [[3], [3], [4], [9]]]),
            "targets": tf.constant([2, 2]),
            "support": tf.constant([1, 2]),
        }
        return ExampleTable(
            np.array([2, 4], np.int32),
            lambda numbers: {name: tf.gather(column, numbers) for name, column in columns.items()},
        )


class WordModel:
    """Is certain of class 2, and takes as many steps as a row's word says."""

    def __call__(
        self, features: dict[str, Any], training: bool = False, return_details: bool = False
    ) -> Any:
        assert return_details
        assert not training
        words = features["inputs"][:, :, 0]
        mask = tf.cast(words != 0, tf.float32)
        encoder = SimpleNamespace(
            ponder_times=tf.cast(words, tf.float32),
            mask=mask,
            halting_probabilities=mask[None],
            computed_steps=mask,
        )
        logits = tf.tile(20.0 * tf.one_hot([2], 12), [tf.shape(words)[0], 1])
        return logits, SimpleNamespace(encoder=encoder, decoder=None)


def test_question_and_facts_ponder_apart() -> None:
    problem = StoryProblem()
    found = Evaluator(WordModel(), problem, Path()).measure(problem.evaluation_sets())
    times = {
        name: value for name, value in found.metrics.items() if name.startswith("ponder_time/")
    }
    assert times == {
        "ponder_time/question": 9,
        "ponder_time/facts": pytest.approx(13 / 4),
        "ponder_time/1": 6,
        "ponder_time/2": 19 / 4,
        "ponder_time/support_1": 6,
        "ponder_time/support_2": 19 / 4,
        "ponder_time/question/support_1": 9,
        "ponder_time/question/support_2": 9,
        "ponder_time/facts/support_1": 3,
        "ponder_time/facts/support_2": pytest.approx(10 / 3),
    }
    assert found.groups == {
        name: Group("support", name[-1], 1) for name in ("1", "2", "support_1", "support_2")
    }
    assert found.intervals["ponder_time/question"] == (9, 9)


def test_source_and_target_and_their_ends_ponder_apart() -> None:
    def part(times: list[list[float]], mask: list[list[float]]) -> SimpleNamespace:
        return SimpleNamespace(
            ponder_times=tf.constant(times, tf.float32),
            mask=tf.constant(mask),
            halting_probabilities=tf.constant([mask]),
        )

    # The second source has no end symbol, and the encoder reads a start symbol before each.
    details = SimpleNamespace(
        encoder=part([[1, 2, 3, 0], [1, 2, 3, 4]], [[1.0, 1.0, 1.0, 0.0], [1.0] * 4]),
        decoder=part([[5, 6], [7, 0]], [[1.0, 1.0], [1.0, 0.0]]),
    )
    features = {
        "inputs": tf.constant([[8, 1, 0], [8, 8, 8]]),
        "targets": tf.constant([[8, 1], [1, 0]]),
    }
    sums = GroupedSums({})
    sums.add(
        {name: value.numpy() for name, value in pondering_roles(details, features).items()},
        np.ones(2),
    )
    assert sums.metrics() == {
        "ponder_time/source": 16 / 7,
        "ponder_time/source_end": 3,
        "ponder_time/target": 6,
        "ponder_time/target_end": 6.5,
    }
