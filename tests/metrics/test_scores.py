"""Scores on text, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import ut_tf
from tests.training.toy import ToyDetails
from ut_tf.errors import UserError
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.metrics import losses
from ut_tf.metrics import per_example as metrics
from ut_tf.metrics.bleu import corpus_scores
from ut_tf.metrics.intervals import bootstrap, middle, resampled_sums, wilson
from ut_tf.metrics.sums import GroupedSums, Metric, percent_wrong, ratio


def test_bleu_by_hand() -> None:
    # Six words of seven: precisions 6/6, 5/5, 4/4, 3/3, so only the brevity penalty exp(1 - 7/6)
    # counts; with both cases equal.
    scores = corpus_scores(
        ["the cat sat on the mat"],
        [["The cat sat on the mat today"]],
        variants=("cased", "uncased"),
    )
    assert scores["bleu_uncased"].value == pytest.approx(100 * math.exp(1 - 7 / 6))
    # Cased, "the" at the start is wrong: 5/6, 4/5, 3/4, 2/3, whose product is 1/3.
    assert scores["bleu_cased"].value == pytest.approx(100 * math.exp(1 - 7 / 6) * (1 / 3) ** 0.25)
    assert "case:lc" in scores["bleu_uncased"].signature
    assert "case:mixed" in scores["bleu_cased"].signature
    assert "hyp_len = 6 ref_len = 7" in scores["bleu_cased"].details


def test_a_perfect_translation_and_an_empty_one() -> None:
    perfect = corpus_scores(
        ["Ein Hund.", "Zwei Hunde laufen."], [["Ein Hund.", "Zwei Hunde laufen."]], ter=True
    )
    assert {name: round(score.value, 6) for name, score in perfect.items()} == {
        "bleu_cased": 100,
        "chrf": 100,
        "ter": 0,
    }
    assert [score.name for score in perfect.values()] == ["BLEU", "chrF2", "TER"]
    empty = corpus_scores([""], [["Ein Hund."]], ter=True)
    assert {name: score.value for name, score in empty.items()} == {
        "bleu_cased": 0,
        "chrf": 0,
        "ter": 100,
    }


def test_the_better_of_several_references_counts() -> None:
    texts, references = ["a b c d e"], [["a b c d e"], ["x"]]
    assert corpus_scores(texts, references)["bleu_cased"].value == pytest.approx(100)
    assert "nrefs:2" in corpus_scores(texts, references)["bleu_cased"].signature


def test_an_interval_on_demand_says_so_in_the_signature() -> None:
    texts = ["a b c d e", "a b c x e", "f g h i j", "k l m n"] * 5
    plain = corpus_scores(texts, [["a b c d e", "a b c d e", "f g h i j", "k l m o"] * 5])[
        "bleu_cased"
    ]
    sure = corpus_scores(
        texts, [["a b c d e", "a b c d e", "f g h i j", "k l m o"] * 5], resamples=200
    )["bleu_cased"]
    assert plain.interval is None
    assert plain.value == sure.value
    assert sure.interval is not None
    assert sure.interval[0] < plain.value < sure.interval[1]
    assert "bs:200|seed:" in sure.signature
    assert "bs:" not in plain.signature


@pytest.mark.parametrize(
    ("translations", "references", "tokenize", "message"),
    [
        ([], [[]], "13a", "the translation has no lines"),
        (["a"], [["a"]], "13", "tokenize=13: expected one of .*; did you mean 13a"),
    ],
)
def test_mistakes(
    translations: list[str], references: list[list[str]], tokenize: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        corpus_scores(translations, references, tokenize=tokenize)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 6), st.floats(0.0, 0.9), st.integers(0, 1000))
def test_smoothed_cross_entropy_is_that_against_the_smoothed_distribution(
    vocabulary: int, smoothing: float, seed: int
) -> None:
    logits = np.random.default_rng(seed).normal(size=[3, vocabulary]).astype(np.float32) * 3
    targets = np.arange(3) % vocabulary
    smoothed = np.full([3, vocabulary], smoothing / (vocabulary - 1))
    smoothed[np.arange(3), targets] = 1.0 - smoothing
    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    found = losses.smoothed_cross_entropy(tf.constant(logits), targets, smoothing)
    np.testing.assert_allclose(found, -(smoothed * log_probabilities).sum(-1), rtol=1e-4, atol=1e-5)


def test_the_loss_is_float32_whatever_the_logits_are() -> None:
    logits = tf.cast([[300.0, 301.0]], tf.bfloat16)
    found = losses.smoothed_cross_entropy(logits, [0], 0.1)
    assert found.dtype == tf.float32


def test_padding_and_filling_examples_weigh_nothing() -> None:
    features = {
        "targets": tf.constant([[3, 1, 0], [4, 0, 0], [5, 5, 1]]),
        "weight": tf.constant([1.0, 1.0, 0.0]),
    }
    assert losses.target_weights(features).numpy().tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
    classes = {"targets": tf.constant([0, 3, 0]), "weight": tf.constant([1.0, 1.0, 0.0])}
    assert losses.target_weights(classes).numpy().tolist() == [1, 1, 0]


def test_ponder_sums_count_masked_positions_of_real_examples() -> None:
    times, remainders = (
        tf.constant([[2.0, 3.0, 5.0], [1.0, 1.0, 1.0]]),
        tf.constant([[0.5, 0.25, 9.0], [7.0, 7.0, 7.0]]),
    )
    part = RecurrenceDetails(
        times, remainders, tf.constant([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), times[tf.newaxis]
    )
    costs, positions, histogram = losses.ponder_sums(
        ToyDetails(part, None), tf.constant([1.0, 0.0]), max_steps=4
    )
    assert costs.numpy().tolist() == [5.75]
    assert positions.numpy().tolist() == [2.0]
    assert histogram.numpy().tolist() == [0, 0, 1, 1, 0]
    fixed = part._replace(halting_probabilities=None)
    for details, expected in (
        (ToyDetails(part, part), [5.0, 5.0]),
        (ToyDetails(fixed, part), [5.0]),
    ):
        assert (
            losses.ponder_sums(details, tf.constant([1.0, 1.0]), max_steps=5)[1].numpy().tolist()
            == expected
        )


def test_sequence_matches_counts_the_end_symbol_and_no_padding() -> None:
    targets = tf.constant([[5, 6, 1, 0], [7, 1, 0, 0], [0, 0, 0, 0]])
    symbols = tf.constant([[5, 6, 9, 9, 9], [7, 1, 8, 8, 8], [0, 0, 0, 0, 0]])
    found = {
        name: value.numpy().tolist()
        for name, value in metrics.sequence_matches(symbols, targets).items()
    }
    assert found == {"positions": [3, 2, 0], "correct": [2, 2, 0], "all_correct": [0, 1, 0]}


def test_teacher_forced_loss_is_summed_over_symbols() -> None:
    targets = tf.constant([[2, 1, 0]])
    logits = tf.math.log(tf.constant([[[0.1, 0.2, 0.7], [0.2, 0.3, 0.5], [0.9, 0.05, 0.05]]]))
    found = metrics.teacher_forced(logits, targets)
    assert found["loss"].numpy()[0] == pytest.approx(-math.log(0.7) - math.log(0.3), rel=1e-6)
    assert (
        found["positions"].numpy()[0],
        found["correct"].numpy()[0],
        found["all_correct"].numpy()[0],
    ) == (2, 1, 0)


def test_classification_takes_the_most_probable_class() -> None:
    logits = tf.math.log(tf.constant([[0.25, 0.75], [0.6, 0.4]]))
    found = metrics.classification(logits, tf.constant([1, 1]))
    assert found["correct"].numpy().tolist() == [1, 0]
    np.testing.assert_allclose(found["loss"], [-math.log(0.75), -math.log(0.4)], rtol=1e-6)


def test_roles_are_added_up_apart() -> None:
    mask = tf.constant([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    times = tf.constant([[2.0, 4.0, 9.0], [1.0, 2.0, 5.0]])
    last = metrics.last_position(mask)
    assert last.numpy().tolist() == [[0, 1, 0], [0, 0, 1]]
    found = metrics.pondering_roles(times, mask, {"question": last, "facts": 1.0 - last})
    assert {name: value.numpy().tolist() for name, value in found.items()} == {
        "ponder_time/question": [4, 5],
        "ponder_positions/question": [1, 1],
        "ponder_time/facts": [2, 3],
        "ponder_positions/facts": [1, 2],
    }


def test_a_sequence_ends_where_its_last_symbol_before_the_padding_is_the_end() -> None:
    assert metrics.ends(tf.constant([[5, 1, 0], [1, 5, 0], [0, 0, 0]])).numpy().tolist() == [
        [1],
        [0],
        [0],
    ]


def test_pondering_looks_at_masked_positions_only() -> None:
    found = metrics.pondering(tf.constant([[2.0, 4.0, 9.0]]), tf.constant([[1.0, 1.0, 0.0]]))
    assert {name: value.numpy()[0] for name, value in found.items()} == {
        "ponder_time": 6,
        "ponder_squares": 20,
        "ponder_positions": 2,
    }


def scores(labels: np.ndarray, classes: int = 5) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[labels]


def test_padding_does_not_count() -> None:
    labels = np.array([[3, 0, 0, 0, 0, 0]])
    wrong_symbol = scores(np.array([[2, 0, 0, 0, 0, 0]]))
    right_symbol = scores(np.array([[3, 1, 1, 1, 1, 1]]))
    assert float(ut_tf.metrics.TokenAccuracy(ignore_class=0)(labels, wrong_symbol)) == 0.0
    assert float(ut_tf.metrics.TokenAccuracy(ignore_class=0)(labels, right_symbol)) == 1.0
    assert np.isclose(
        float(ut_tf.metrics.TokenAccuracy(ignore_class=None)(labels, right_symbol)), 1 / 6
    )


def test_the_mean_is_over_symbols_of_all_batches() -> None:
    metric = ut_tf.metrics.TokenAccuracy()
    metric.update_state(np.array([[3, 0]]), scores(np.array([[3, 0]])))
    metric.update_state(np.array([[1, 2, 3]]), scores(np.array([[4, 4, 4]])))
    assert np.isclose(float(metric.result()), 1 / 4)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_weights_of_examples_and_labels_with_an_axis_of_their_own() -> None:
    labels = np.array([[1, 2], [3, 0]])[..., None]
    metric = ut_tf.metrics.TokenAccuracy()
    metric.update_state(
        labels, scores(np.array([[1, 2], [4, 0]])), sample_weight=np.array([1.0, 6.0])
    )
    assert np.isclose(float(metric.result()), 2 / 8)


CLASSES = {
    "loss": Metric(("loss", "examples"), ratio),
    "error": Metric(("correct", "examples"), percent_wrong, share=True, grouped=True),
}


@pytest.mark.parametrize(("successes", "trials"), [(964, 1000), (0, 20), (20, 20), (1, 3)])
def test_wilson_by_its_formula(successes: int, trials: int) -> None:
    z, share = 1.959963984540054, successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = (
        z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2)) / (1 + z * z / trials)
    )
    assert wilson(successes, trials) == pytest.approx((centre - half, centre + half), abs=1e-9)


def test_no_trials_tell_nothing() -> None:
    assert wilson(0, 0) == (0, 1)
    assert bootstrap([[3.0, 4.0]], lambda sums: sums[:, 0] / sums[:, 1]) is None
    assert middle([math.nan, math.nan]) is None


def test_samples_are_drawn_from_the_examples_by_the_seed() -> None:
    values = np.array([[1.0, 1.0], [10.0, 1.0], [100.0, 1.0]])
    sums = resampled_sums(values, seed=3, resamples=50)
    assert sums.shape == (50, 2)
    assert set(sums[:, 1]) == {3.0}
    assert {sum(map(int, str(int(total)))) for total in sums[:, 0]} == {3}
    np.testing.assert_array_equal(sums, resampled_sums(values, seed=3, resamples=50))
    assert (sums != resampled_sums(values, seed=4, resamples=50)).any()


def test_the_bootstrap_agrees_with_the_normal_interval_of_a_mean_and_shrinks() -> None:
    draws = np.random.default_rng(0)
    widths = []
    for examples in (100, 1600):
        values = draws.normal(5.0, 2.0, examples)
        low, high = bootstrap(
            np.stack([values, np.ones(examples)], 1), lambda sums: sums[:, 0] / sums[:, 1]
        ) or (0, 0)
        assert low < values.mean() < high
        half = 1.96 * values.std() / math.sqrt(examples)
        assert (low, high) == pytest.approx(
            (values.mean() - half, values.mean() + half), abs=0.2 * half
        )
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.3)


def test_each_metric_has_the_interval_of_its_kind() -> None:
    sums = GroupedSums(CLASSES, ponder_by="facts")
    draws = np.random.default_rng(1)
    for _ in range(4):
        times = draws.integers(1, 5, [100, 3]).astype(float)
        found = {"loss": draws.random(100), "correct": (draws.random(100) < 0.8).astype(float)}
        found |= {
            "ponder_time": times.sum(1),
            "ponder_squares": (times**2).sum(1),
            "ponder_positions": np.full(100, 3.0),
        }
        sums.add(found, np.ones(100), np.arange(100) % 2, np.arange(100) % 4)
    metrics, intervals = sums.metrics(), sums.intervals()
    assert set(intervals) == set(metrics)
    assert len(metrics) == 4 + 2 * 3 + 4 * 2
    assert all(low < metrics[name] < high for name, (low, high) in intervals.items())
    correct = round(4 * (100 - metrics["error"]))
    low, high = wilson(correct, 400)
    assert intervals["error"] == pytest.approx((100 * (1 - high), 100 * (1 - low)))
    # A quarter of the examples: twice the width.
    width = {name: high - low for name, (low, high) in intervals.items()}
    assert width["ponder_time/facts_2"] == pytest.approx(2 * width["ponder_time"], rel=0.25)
    assert width["error/1"] == pytest.approx(math.sqrt(2) * width["error"], rel=0.2)
    assert "ponder_time_std/facts_2" not in sums.metrics(spreads=False)


def test_a_ratio_of_sums_is_not_a_mean_of_ratios() -> None:
    sums = GroupedSums({"accuracy": Metric(("correct", "positions"), ratio)})
    # One long text and three short ones: the share of symbols is 100 of 106, whichever way the
    # examples are batched.
    columns = {
        "loss": [1.0, 1, 1, 1],
        "positions": [100.0, 2, 2, 2],
        "correct": [100.0, 0, 0, 0],
        "all_correct": [1.0, 0, 0, 0],
    }
    sums.add({name: values[:1] for name, values in columns.items()}, [1.0])
    sums.add({name: values[1:] for name, values in columns.items()}, [1.0] * 3)
    assert sums.metrics()["accuracy"] == 100 / 106
    # Of four examples drawn, none is the long one in 32 % of the samples, three or four are in 5 %.
    assert sums.intervals()["accuracy"] == (0, 300 / 302)
