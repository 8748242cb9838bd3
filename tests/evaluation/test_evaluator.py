"""Evaluation of whole sets, with a problem and models whose every answer is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.data.problem import EvaluationSet, Problem, ProblemSpec
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import Evaluator, GroupedSums, _pondering, evaluate_model

INPUTS = [[3], [4, 5], [2, 2, 2], [6, 7, 8, 9]]


class CopyProblem(Problem):
    """Targets are the inputs and the end symbol."""

    name = "copy"

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Nothing."""

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)

    def dataset(self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None) -> Any:
        del split, data_dir, seed, epoch, length

        def examples() -> Any:
            for ids in INPUTS:
                yield {"inputs": [*ids, 1], "targets": [*ids, 1], "task": len(ids) % 2}

        ids = tf.TensorSpec([None], tf.int32)
        return tf.data.Dataset.from_generator(
            examples, output_signature={"inputs": ids, "targets": ids, "task": tf.TensorSpec([], tf.int32)}
        )

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        del lengths
        return [EvaluationSet("", "test", "greedy")]

    def summarize(self, metrics: dict[str, float]) -> dict[str, float]:
        return {"count": float(len(metrics))}


class ClassProblem(CopyProblem):
    """The class is the first input."""

    def dataset(self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None) -> Any:
        return super().dataset(split, data_dir, seed, epoch, length).map(lambda example: {**example, "targets": example["inputs"][0]})


class CopyModel:
    """Is certain of the right symbol, but takes every 9 for an 8; counts how often it is traced."""

    supports_incremental_decoding = False

    def __init__(self) -> None:
        self.traces = 0

    def __call__(self, features: dict[str, Any], training: bool = False, return_details: bool = False) -> Any:
        assert not training
        self.traces += 1
        inputs = features["inputs"]
        answers = inputs[:, 0] if features["targets"].shape.rank == 1 else inputs[:, : tf.shape(features["targets"])[1]]
        logits = 20.0 * tf.one_hot(tf.where(answers == 9, 8, answers), 12)
        mask = tf.cast(inputs != 0, tf.float32)
        encoder = SimpleNamespace(ponder_times=3.0 * mask, mask=mask, halting_probabilities=mask[None])
        return (logits, SimpleNamespace(encoder=encoder, decoder=None)) if return_details else logits


def test_teacher_forced_and_greedy_give_the_same_shares_here() -> None:
    sets = [EvaluationSet("forced", "test", "teacher_forced"), EvaluationSet("written", "test", "greedy")]
    found = evaluate_model(CopyModel(), CopyProblem(), sets, Path())
    assert found["forced/accuracy"] == found["written/char_acc"] == pytest.approx(13 / 14)
    assert found["forced/seq_accuracy"] == found["written/seq_acc"] == pytest.approx(3 / 4)
    assert found["forced/loss"] == pytest.approx(20 / 14, abs=1e-3)
    assert found["forced/ponder_time"] == 3.0
    assert found["count"] == len(found) - 1


def test_classify_by_groups() -> None:
    found = evaluate_model(CopyModel(), ClassProblem(), [EvaluationSet("", "test", "classify", group_by="task")], Path())
    assert (found["error"], found["error/0"], found["error/1"]) == (0.0, 0.0, 0.0)
    assert found["ponder_time/1"] == 3.0


def test_pondering_of_a_decoder_counts_where_there_is_no_encoder() -> None:
    mask = tf.constant([[1.0, 0.0]])
    decoder = SimpleNamespace(ponder_times=5.0 * mask, mask=mask, halting_probabilities=mask[None])
    found = _pondering(SimpleNamespace(encoder=None, decoder=decoder))
    assert (found["ponder_time"].numpy().tolist(), found["ponder_positions"].numpy().tolist()) == ([5.0], [1.0])


def test_one_trace_serves_all_lengths_and_calls() -> None:
    model = CopyModel()
    judge = Evaluator(model, CopyProblem(), Path(), batch_tokens=8)
    sets = [EvaluationSet("", "test", "teacher_forced")]
    assert judge.evaluate(sets) == judge.evaluate(sets)
    assert model.traces == 1


def test_examples_of_weight_0_do_not_count() -> None:
    sums = GroupedSums()
    sums.add({"loss": [1.0, 3.0, 100.0], "correct": [1.0, 0.0, 0.0]}, [1.0, 1.0, 0.0], [b"one", b"two", b"two"])
    assert sums.metrics("classify") == {"loss": 2.0, "error": 50.0, "error/one": 0.0, "error/two": 100.0}


def test_two_sets_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="two evaluation sets"):
        evaluate_model(CopyModel(), CopyProblem(), [EvaluationSet("", "test", "greedy")] * 2, Path())
