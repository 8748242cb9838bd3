"""Sets that are judged by the text the model writes: during training, and by ut-eval."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.data.problem import EvaluationSet
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import Evaluator, decoded_with
from ut_tf.metrics.intervals import wilson
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.algorithmic.problem import Algorithmic
from ut_tf.search.config import DecodeConfig

SOURCES = ["12345", "1", "", "777777", "908070605"]


class Numbers(Algorithmic):
    """Digit strings that are to be written again, but for the last reference, which is another."""

    def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
        assert data_dir == Path("data")
        if split != "validation":
            raise UserError(f"no split {split}")
        return SOURCES, [*SOURCES[:-1], "1"]

    def text_codec(self, vocab_dir: Path) -> Any:
        assert vocab_dir == Path("vocab")
        return super().text_codec(vocab_dir)


class Echo:
    """Writes its inputs again."""

    supports_incremental_decoding = False
    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)

    def __init__(self) -> None:
        self.traces = 0

    def __call__(self, features: dict[str, Any], training: bool = False) -> Any:
        assert not training
        self.traces += 1
        inputs, length = features["inputs"], tf.shape(features["targets"])[1]
        ended = tf.pad(
            inputs, [[0, 0], [0, tf.maximum(length - tf.shape(inputs)[1], 0)]], constant_values=1
        )[:, :length]
        return 20.0 * tf.one_hot(tf.where(ended == 0, 1, ended), 12)


def judge(model: Echo) -> Evaluator:
    return Evaluator(model, Numbers(), Path("data"), vocab_dir=Path("vocab"))


def test_the_text_is_scored_against_the_references() -> None:
    model = Echo()
    evaluator = judge(model)
    found = evaluator.evaluate([EvaluationSet("dev", "validation", "translate")])
    # One word in each of four sentences, of which three are right; BLEU needs four words in a row.
    assert set(found) == {"dev/bleu", "dev/chrf"}
    assert 0 < found["dev/chrf"] < 100
    traced = model.traces
    # Of five sentences two, evenly spaced, are the first and the third: both right.
    some = evaluator.evaluate([EvaluationSet("", "validation", "translate", max_examples=2)])
    assert some["chrf"] == pytest.approx(100)
    assert model.traces == traced


@pytest.mark.usefixtures("eager")
def test_a_problem_may_measure_its_texts_itself() -> None:
    class Exact(Numbers):
        def text_metrics(self, written: list[str], references: list[str]) -> dict[str, float]:
            return {"exact_match": sum(map(str.__eq__, written, references)) / len(references)}

        def text_intervals(
            self, written: list[str], references: list[str]
        ) -> dict[str, tuple[float, float]]:
            return {
                "exact_match": wilson(sum(map(str.__eq__, written, references)), len(references))
            }

    evaluator = Evaluator(Echo(), Exact(), Path("data"), vocab_dir=Path("vocab"))
    found = evaluator.measure([EvaluationSet("dev", "validation", "translate")])
    assert (found.metrics, found.examples) == ({"dev/exact_match": 4 / 5}, {"dev": 5})
    assert found.intervals == {"dev/exact_match": wilson(4, 5)}


@pytest.mark.usefixtures("eager")
def test_what_is_scored_has_intervals_by_ut_eval_alone() -> None:
    class Many(Numbers):
        def text_pairs(self, split: str, data_dir: Path) -> tuple[list[str], list[str]]:
            del split, data_dir
            sources = [str(123456 * number) for number in range(1, 30)]
            return sources, [*sources[:15], *(source[:-3] for source in sources[15:])]

    sets = [EvaluationSet("dev", "validation", "translate")]
    evaluator = Evaluator(Echo(), Many(), Path("data"), vocab_dir=Path("vocab"))
    found = evaluator.measure(sets)
    assert found.metrics == evaluator.evaluate(sets)
    low, high = found.intervals["dev/chrf"]
    assert 50 < low < found.metrics["dev/chrf"] < high < 100
    # A word a sentence: BLEU is 0, whatever is drawn.
    assert found.intervals["dev/bleu"] == (0, 0)


def test_the_options_are_those_of_the_set() -> None:
    with pytest.raises(UserError, match="did you mean beam_size"):
        judge(Echo()).evaluate([EvaluationSet("", "validation", "translate", decode="beam=1")])
    cut = judge(Echo()).evaluate(
        [EvaluationSet("", "validation", "translate", decode="beam_size=1,max_length=2")]
    )
    assert cut["chrf"] < 50


def test_options_of_an_evaluation_stand_in_place_of_the_sets() -> None:
    run: Any = SimpleNamespace(problem="numbers")
    sets = [
        EvaluationSet("", "validation", "teacher_forced"),
        EvaluationSet("", "validation", "translate", decode="beam_size=4,alpha=0.6,n_best=1"),
    ]
    replaced, changed = decoded_with(run, sets, "max_length=2, alpha=1.2,beam_size=4")
    assert changed == "alpha=1.2,max_length=2"
    assert replaced[0] == sets[0]
    expected = DecodeConfig(beam_size=4, alpha=1.2, n_best=1, max_length=2)
    assert DecodeConfig.from_text(replaced[1].decode) == expected
    assert decoded_with(run, sets, "") == (sets, "")
    with pytest.raises(UserError, match="nothing is searched for when numbers is evaluated"):
        decoded_with(run, sets[:1], "alpha=1.2")
    with pytest.raises(UserError, match="write_beam_scores has no effect on an evaluation"):
        decoded_with(run, sets, "alpha=1.2,write_beam_scores=true")
    assert decoded_with(run, sets, "batch_size=8")[1] == ""


def test_a_codec_must_be_had() -> None:
    class Plain(Numbers):
        def text_codec(self, vocab_dir: Path) -> TextCodec:
            return super(Algorithmic, self).text_codec(vocab_dir)

    with pytest.raises(UserError, match="has no text form"):
        Evaluator(Echo(), Plain(), Path("data"), vocab_dir=Path("vocab")).evaluate(
            [EvaluationSet("", "validation", "translate")]
        )
