"""Evaluation of whole sets, with a problem and models whose every answer is known."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.evaluation.methods.batches import PredictionMethod, pondering
from ut_tf.evaluation.methods.predictions import Classify
from ut_tf.metrics.intervals import wilson
from ut_tf.metrics.sums import GroupedSums
from ut_tf.problem_spec import ProblemSpec

INPUTS = [[3], [4, 5], [2, 2, 2], [6, 7, 8, 9]]


class CopyProblem(Problem):
    """Targets are the inputs and the end symbol."""

    name = "copy"

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Nothing."""

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        del split, data_dir, seed, epoch, length

        def examples() -> Any:
            for ids in INPUTS:
                yield {"inputs": [*ids, 1], "targets": [*ids, 1], "task": len(ids) % 2}

        ids = tf.TensorSpec([None], tf.int32)
        dataset = tf.data.Dataset.from_generator(
            examples,
            output_signature={"inputs": ids, "targets": ids, "task": tf.TensorSpec([], tf.int32)},
        )
        return ExampleTable.from_dataset(dataset)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        del lengths
        return [EvaluationSet("", "test", "greedy")]

    def summarize(self, metrics: dict[str, float]) -> dict[str, float]:
        return {"count": float(len(metrics))}

    def summarize_intervals(
        self, intervals: dict[str, tuple[float, float]]
    ) -> dict[str, tuple[float, float]]:
        return {"count": (0.0, float(len(intervals)))}


class ClassProblem(CopyProblem):
    """The class is the first input."""

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        table = super().examples(split, data_dir, seed, epoch, length)

        def batch(numbers: Any) -> dict[str, Any]:
            features = table.batch(numbers)
            return {**features, "targets": features["inputs"][:, 0]}

        return ExampleTable(table.lengths, batch)


class CopyModel:
    """Is certain of the right symbol, but takes every 9 for an 8; counts how often it is traced."""

    supports_incremental_decoding = False

    def __init__(self) -> None:
        self.traces = 0

    def __call__(
        self, features: dict[str, Any], training: bool = False, return_details: bool = False
    ) -> Any:
        assert not training
        self.traces += 1
        inputs = features["inputs"]
        answers = (
            inputs[:, 0]
            if features["targets"].shape.rank == 1
            else inputs[:, : tf.shape(features["targets"])[1]]
        )
        logits = 20.0 * tf.one_hot(tf.where(answers == 9, 8, answers), 12)
        mask = tf.cast(inputs != 0, tf.float32)
        encoder = SimpleNamespace(
            ponder_times=3.0 * mask,
            mask=mask,
            halting_probabilities=mask[None],
            computed_steps=mask,
        )
        return (
            (logits, SimpleNamespace(encoder=encoder, decoder=None)) if return_details else logits
        )


@pytest.mark.usefixtures("eager")
def test_teacher_forced_and_greedy_give_the_same_shares_here() -> None:
    sets = [
        EvaluationSet("forced", "test", "teacher_forced"),
        EvaluationSet("written", "test", "greedy"),
    ]
    found = Evaluator(CopyModel(), CopyProblem(), Path()).evaluate(sets)
    assert found["forced/accuracy"] == found["written/char_acc"] == pytest.approx(13 / 14)
    assert found["forced/seq_accuracy"] == found["written/seq_acc"] == pytest.approx(3 / 4)
    assert found["forced/loss"] == pytest.approx(20 / 14, abs=1e-3)
    assert found["forced/ponder_time"] == 3.0
    assert found["count"] == len(found) - 1


def test_classify_by_groups() -> None:
    found = Evaluator(CopyModel(), ClassProblem(), Path()).evaluate(
        [EvaluationSet("", "test", "classify", group_by="task")]
    )
    assert (found["error"], found["error/0"], found["error/1"]) == (0.0, 0.0, 0.0)
    assert found["ponder_time/1"] == 3.0


@pytest.mark.parametrize(("computed", "share"), [(6.0, 0.6), (None, 1.0)])
def test_pondering_of_a_decoder_counts_where_there_is_no_encoder(
    computed: float | None, share: float
) -> None:
    mask = tf.constant([[1.0, 0.0]])
    decoder = SimpleNamespace(
        ponder_times=5.0 * mask,
        mask=mask,
        halting_probabilities=tf.zeros([10, 1, 2]),
        computed_steps=None if computed is None else computed * mask,
    )
    found = pondering(SimpleNamespace(encoder=None, decoder=decoder))
    assert found["computed_steps"] / found["full_steps"] == share
    assert (found["ponder_time"].numpy().tolist(), found["ponder_positions"].numpy().tolist()) == (
        [5.0],
        [1.0],
    )


def test_one_trace_serves_all_lengths_and_calls() -> None:
    model = CopyModel()
    judge = Evaluator(model, CopyProblem(), Path(), batch_tokens=8)
    sets = [EvaluationSet("", "test", "teacher_forced")]
    assert judge.evaluate(sets) == judge.evaluate(sets)
    assert model.traces == 1


def test_examples_of_weight_0_do_not_count() -> None:
    sums = GroupedSums(Classify.metrics)
    sums.add(
        {"loss": [1.0, 3.0, 100.0], "correct": [1.0, 0.0, 0.0]},
        [1.0, 1.0, 0.0],
        [b"one", b"two", b"two"],
    )
    assert sums.metrics() == {"loss": 2.0, "error": 50.0, "error/one": 0.0, "error/two": 100.0}


class NextProblem(CopyProblem):
    """A language model's examples, which end with the symbol that is judged; `facts` counts their
    symbols.
    """

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("none", "tokens", 0, 12)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        del split, data_dir, seed, epoch, length

        def examples() -> Any:
            for ids in INPUTS:
                yield {"targets": ids, "alternative": 4 if len(ids) == 2 else 2, "facts": len(ids)}

        scalar = tf.TensorSpec([], tf.int32)
        dataset = tf.data.Dataset.from_generator(
            examples,
            output_signature={
                "targets": tf.TensorSpec([None], tf.int32),
                "alternative": scalar,
                "facts": scalar,
            },
        )
        return ExampleTable.from_dataset(dataset)


class OddsModel:
    """Gives the symbols 0 to 5 the probabilities 1, 2, 5, 2, 3, 3 of 16, whatever came before;
    takes 2 steps for even symbols, else 5.
    """

    def __call__(
        self, features: dict[str, Any], training: bool = False, return_details: bool = False
    ) -> Any:
        assert return_details
        assert not training
        targets = features["targets"]
        odds = tf.math.log(tf.constant([1.0, 2.0, 5.0, 2.0, 3.0, 3.0] + [1e-9] * 6))
        mask = tf.cast(targets != 0, tf.float32)
        decoder = SimpleNamespace(
            ponder_times=tf.where(targets % 2 == 0, 2.0, 5.0),
            mask=mask,
            halting_probabilities=mask[None],
            computed_steps=mask,
        )
        logits = tf.broadcast_to(odds, tf.concat([tf.shape(targets), [12]], 0))
        return logits, SimpleNamespace(encoder=None, decoder=decoder)


@pytest.mark.usefixtures("eager")
def test_the_last_word_is_judged_for_itself_whatever_the_padding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "INPUTS", [[3], [4, 5], [2, 2, 2], [3, 3, 5, 2]])
    found = (
        Evaluator(OddsModel(), NextProblem(), Path())
        .measure([EvaluationSet("", "test", "last_word", ponder_by="facts")])
        .metrics
    )
    # Last symbols 3, 5, 2, 2; the most probable symbol is 2.
    log = {symbol: math.log(share / 16) for symbol, share in {2: 5, 3: 2, 4: 3, 5: 3}.items()}
    assert found["target/accuracy"] == 2 / 4
    assert found["target/loss"] == pytest.approx(-(log[3] + log[5] + 2 * log[2]) / 4)
    assert found["target/perplexity"] == pytest.approx((16**4 / (2 * 3 * 5 * 5)) ** (1 / 4))
    # The last symbol of the third example stands in it before, and that of no other.
    assert found["target/context_accuracy"] == 1
    assert found["target/context_loss"] == pytest.approx(-log[2])
    assert found["accuracy"] == 4 / 10
    assert found["perplexity"] == pytest.approx(
        math.exp(-(3 * log[3] + log[4] + 2 * log[5] + 4 * log[2]) / 10)
    )
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    # Ponder times 5; 2 5; 2 2 2; 5 5 5 2.
    assert found["ponder_time"] == pytest.approx(3.5)
    assert found["ponder_time_std"] == pytest.approx(1.5)
    assert [found[f"ponder_time/facts_{count}"] for count in (1, 2, 3, 4)] == [5, 3.5, 2, 4.25]
    assert found["ponder_time_std/facts_4"] == pytest.approx(math.sqrt(27 / 16))
    assert "target/accuracy/1" not in found


@pytest.mark.usefixtures("eager")
def test_a_rank_is_right_only_where_the_last_symbol_is_more_probable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The alternative is 4 where there are two symbols, otherwise 2: less probable, as probable, the
    # same, more probable.
    monkeypatch.setattr(sys.modules[__name__], "INPUTS", [[3], [4, 5], [2, 4, 2], [2, 2, 2, 4]])
    found = Evaluator(OddsModel(), NextProblem(), Path()).evaluate(
        [EvaluationSet("", "test", "ranking", group_by="facts")]
    )
    assert found["accuracy"] == 0
    monkeypatch.setattr(sys.modules[__name__], "INPUTS", [[3], [3, 2], [2, 2, 4], [4, 4, 4, 4]])
    found = Evaluator(OddsModel(), NextProblem(), Path()).evaluate(
        [EvaluationSet("", "test", "ranking", group_by="facts")]
    )
    assert found["accuracy"] == 1 / 4
    assert [found[f"accuracy/{count}"] for count in (1, 2, 3, 4)] == [0, 1, 0, 0]
    assert found["loss"] == pytest.approx(
        -(2 * math.log(2 / 16) + 3 * math.log(5 / 16) + 5 * math.log(3 / 16)) / 10
    )


@pytest.mark.usefixtures("eager")
def test_intervals_and_numbers_of_examples_by_set() -> None:
    sets = [
        EvaluationSet("forced", "test", "teacher_forced"),
        EvaluationSet("written", "test", "greedy", group_by="task"),
    ]
    found = Evaluator(CopyModel(), CopyProblem(), Path()).measure(sets)
    assert found.examples == {"forced": 4, "written": 4}
    assert found.metrics.keys() == found.intervals.keys()
    # What the problem computes of the others, it computes of all of them.
    assert found.intervals["count"] == (0, len(found.intervals) - 1)
    assert (
        found.intervals["written/seq_acc"] == found.intervals["forced/seq_accuracy"] == wilson(3, 4)
    )
    # All steps are 3, whatever is drawn.
    assert (found.metrics["forced/ponder_time_std"], found.intervals["forced/ponder_time"]) == (
        0,
        (3, 3),
    )
    trained = Evaluator(CopyModel(), CopyProblem(), Path()).evaluate(sets)
    assert trained.keys() == found.metrics.keys() - {"forced/ponder_time_std"}


@pytest.mark.slow
def test_two_sets_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="two evaluation sets"):
        Evaluator(CopyModel(), CopyProblem(), Path()).evaluate(
            [EvaluationSet("", "test", "greedy")] * 2
        )


class Unfinished(PredictionMethod):
    """Defines nothing."""


class WithoutMetrics(PredictionMethod):
    """Has no metrics."""

    def per_example(self, logits: Any, features: Any) -> dict[str, Any]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("unfinished", "'unfinished' has no per_example: define it in the class Unfinished"),
        ("without_metrics", "WithoutMetrics has no metrics: set `metrics`"),
        ("ranking", "method ranking needs the feature 'alternative'"),
        ("translate", "has no text pairs"),
        ("classify", r"selection_metric 'los' is not among .* expected one of loss, error, "),
    ],
)
def test_what_validation_lacks_is_told_without_measuring(
    method: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Selected(ClassProblem):
        selection_metric = ("los", "min")
        summarize = Problem.summarize

    monkeypatch.setattr(registry.evaluation_methods, "_registered", {})
    registry.register_evaluation_method("unfinished")(Unfinished)
    registry.register_evaluation_method("without_metrics")(WithoutMetrics)
    evaluator = Evaluator(CopyModel(), Selected(), Path())
    with pytest.raises(UserError, match=expected):
        evaluator.check([EvaluationSet("", "validation", method)])


@pytest.mark.parametrize("metric", ["dev/error", "dev/error/1"])
def test_a_metric_of_a_set_or_of_a_group_selects(metric: str) -> None:
    class Selected(ClassProblem):
        selection_metric = (metric, "min")
        summarize = Problem.summarize

    sets = [EvaluationSet("dev", "validation", "classify", group_by="task")]
    Evaluator(CopyModel(), Selected(), Path()).check(sets)
