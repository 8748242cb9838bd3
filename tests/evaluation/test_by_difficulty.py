"""Steps beside those of an algorithm: what the figures are, by hand, and through the command."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.bin.tiny_runs import save
from tests.training.toy import toy_run
from ut_tf import registry
from ut_tf.bin import eval as eval_command
from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.evaluation.by_difficulty import Positions, _of_batch, _report, judge_by_difficulty
from ut_tf.evaluation.evaluator import Evaluator, decoded_with
from ut_tf.evaluation.methods.batches import pondering_roles
from ut_tf.metrics.intervals import wilson
from ut_tf.metrics.sums import GroupedSums
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.algorithmic.problem import Algorithmic
from ut_tf.problems.reasoning.prefix_sums import PrefixSums
from ut_tf.run import Run
from ut_tf.search.config import DecodeConfig


class ToySums(PrefixSums):
    """Few short strings of bits."""

    def __init__(self, name: str = "") -> None:
        super().__init__(6, 50, 7, 6, 6, name=name)


@pytest.fixture(autouse=True)
def _sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.problems._registered, "toy_sums", (ToySums, __file__))


def made(**changes: Any) -> Positions:
    """Three examples with two positions each, and four steps."""
    fields: dict[str, Any] = {
        "example": np.array([0, 0, 1, 1, 2, 2]),
        "oracle": np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0]),
        "steps": np.array([2.0, 4.0, 2.0, 4.0, 3.0, 4.0]),
        "final": np.array([1.0, 3.0, 2.0, 1.0, 1.0, 4.0]),
        "right": np.array(
            [[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]],
            bool,
        ),
    }
    return Positions(**{**fields, **changes})


def test_figures_by_hand() -> None:
    positions = made()
    # Ratios 2, 2, 2, 2, 3, 2: the least mean |steps - a * oracle| is at 2.
    assert positions.scale() == 2.0
    report = _report(positions, positions.scale(), (7, "test", "kl", False))
    first, second = report.points
    assert (first.difficulty, first.positions) == (1, 3)
    wasted = np.mean([1, 0, 2])
    assert first.metrics == pytest.approx(
        {"accuracy": 1.0, "steps": 7 / 3, "final": 4 / 3, "wasted": wasted}
    )
    assert second.metrics["accuracy"] == pytest.approx(2 / 3)
    assert report.totals["too_many"] == pytest.approx(1 / 6) and report.totals["too_few"] == 0.0
    # After 2, 4, 2, 4, 2 and 4 steps.
    assert report.totals["oracle_accuracy"] == pytest.approx(5 / 6)
    # Ranks of the steps 1.5, 5, 1.5, 5, 3, 5; of the oracle 2, 5, 2, 5, 2, 5.
    ranks = np.corrcoef([1.5, 5, 1.5, 5, 3, 5], [2, 5, 2, 5, 2, 5])[0, 1]
    assert report.totals["spearman"] == pytest.approx(ranks)
    assert report.spearman_interval is not None and report.spearman_interval[1] <= 1.0


@pytest.mark.parametrize("seed", range(3))
def test_the_scale_has_the_least_mean_absolute_difference(seed: int) -> None:
    draws = np.random.default_rng(seed)
    oracle, steps = draws.integers(1, 9, 6).astype(float), draws.integers(1, 20, 6).astype(float)
    scale = made(oracle=oracle, steps=steps).scale()
    error = np.abs(steps - scale * oracle).mean()
    for other in np.linspace(0.0, 20.0, 500):
        assert error <= np.abs(steps - other * oracle).mean() + 1e-12


def test_one_depth_for_all_has_no_correlation() -> None:
    report = _report(made(steps=np.full(6, 4.0)), 4.0, (7, "test", "fixed depth", False))
    assert report.spearman_interval is None and "none" in report.table()
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["totals"]["spearman"] is None


def halting_run(folder: Path, act_max_steps: int = 5) -> Run:
    halting = {"halting": "basic", "act_max_steps": act_max_steps, "act_halting_bias_init": -0.5}
    return toy_run(folder, "toy_sums", model="universal_transformer", **halting)


def test_steps_and_answers_are_the_models(tmp_path: Path) -> None:
    run = halting_run(tmp_path)
    model, problem = run.make_model(), run.make_problem()
    table = problem.examples("test", run.data_dir)
    batch = {**table.batch(range(len(table))), "weight": np.ones(len(table), np.float32)}
    batch = {name: np.asarray(value) for name, value in batch.items()}
    found = _of_batch(model, {name: tf.constant(value) for name, value in batch.items()}, 3)
    logits, details = model(batch, return_details=True)
    judged = batch["targets"] > 0
    np.testing.assert_array_equal(found.steps, details.encoder.ponder_times.numpy()[judged])
    right = np.argmax(logits, -1) == batch["targets"]
    np.testing.assert_array_equal(found.solved, right[judged])
    assert (found.final <= found.steps).all() and (found.wasted == found.steps - found.final).all()
    assert found.example.min() == 3
    np.testing.assert_array_equal(found.oracle, batch["position_difficulty"][judged])


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_the_command_prints_and_keeps_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = halting_run(tmp_path, act_max_steps=2)
    save(run, (1,))
    monkeypatch.setattr(Run, "load", lambda *_args, **_options: run)
    monkeypatch.setattr(Run, "prepare", lambda run, _problem: run)
    eval_command.main([f"--output_dir={run.output_dir}", "--by_difficulty", "--json"])
    out = capsys.readouterr()
    report = json.loads(out.out)
    kept = json.loads((run.output_dir / "by_difficulty.json").read_text())
    assert report == kept and "regret: " in out.err
    # The sets of 6 and of 24 bits.
    assert [point["difficulty"] for point in report["points"]] == [*range(1, 25)]
    assert (run.output_dir / "by_difficulty.csv").read_text().startswith("difficulty,positions,")


@pytest.mark.slow
def test_lengths_that_are_judged_choose_the_scale(tmp_path: Path) -> None:
    run = halting_run(tmp_path)
    save(run, (1,))
    short, long = (judge_by_difficulty(run, lengths=[length]) for length in (6, 24))
    assert short.totals["scale"] > 2 * long.totals["scale"]


def test_a_problem_of_unknown_depth_is_refused(tmp_path: Path) -> None:
    run = toy_run(tmp_path, model="universal_transformer")
    save(run, (1,))
    with pytest.raises(UserError, match="need a problem whose depth is known at each position"):
        judge_by_difficulty(run)


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
