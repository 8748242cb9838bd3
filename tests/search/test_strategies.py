"""Beam search, greedy decoding and sampling of models whose every probability is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import CLASSES, INPUTS, Table, penalty, random_model, unpadded
from ut_tf.search.beam import BeamSearch, best_symbols
from ut_tf.search.bounds import Bounds
from ut_tf.search.config import DecodeConfig
from ut_tf.search.sampling import draw, uniform_draws
from ut_tf.search.scoring import log_probabilities
from ut_tf.search.stepper import make_stepper
from ut_tf.search.strategies import Decoded, decode, decoder_features
from ut_tf.search.strategy import Seeds

# A likely end at once, and a longer output that the length penalty prefers.
SHORT = [[0.1, 0.5, 0.4, 0], [0, 1, 0, 0], [0, 0.1, 0, 0.9], [0, 1, 0, 0]]


def _random_table(vocab: int, seed: int = 3, **options: Any) -> Table:
    return Table(np.random.default_rng(seed).dirichlet([0.5] * vocab, vocab), **options)


def _decode(model: Any, batch_size: int = 1, **options: Any) -> Decoded:
    decoded = decode(model, {"batch_size": batch_size}, DecodeConfig(**options))
    return Decoded(*(np.asarray(part) for part in decoded))


def _best(model: Any, **options: Any) -> list[list[int]]:
    return unpadded(_decode(model, **options).symbols[0])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("vocab", [4, 5])
def test_a_beam_of_everything_is_an_exhaustive_search(vocab: int, alpha: float) -> None:
    table, longest = _random_table(vocab), 4
    expected = sorted(
        (
            (table.log_probability(one) / penalty(len(one), alpha), one)
            for one in table.outputs(longest)
        ),
        reverse=True,
    )[:6]
    found = _decode(
        table, beam_size=(vocab - 2) ** longest * 2, n_best=6, alpha=alpha, max_length=longest
    )
    assert [tuple(one) for one in unpadded(found.symbols[0])] == [one for _, one in expected]
    np.testing.assert_allclose(found.scores[0], [score for score, _ in expected], rtol=1e-5)


def test_a_beam_of_one_without_length_penalty_is_greedy() -> None:
    for seed in range(3):
        table = _random_table(6, seed)
        features, longest = decoder_features({"batch_size": 1}), tf.constant([12])
        strategy = BeamSearch(DecodeConfig(strategy="beam", beam_size=1, alpha=0.0))
        beam = strategy.search(
            make_stepper(table, 1), features, Bounds(longest), Seeds([0, 0], [0])
        )
        greedy = _decode(table, beam_size=1, max_length=12)
        assert unpadded(beam.symbols[0]) == unpadded(greedy.symbols[0])
        np.testing.assert_allclose(beam.scores, greedy.scores, rtol=1e-5)


def test_minimum_and_forced_lengths() -> None:
    for search in ({"beam_size": 3, "n_best": 3}, {"sampling": True, "n_best": 4}):
        assert all(
            len(output) >= 4
            for output in _best(_random_table(5), min_length=4, max_length=9, **search)
        )
    for search in ({"beam_size": 1}, {"beam_size": 3, "n_best": 3}):
        assert all(
            len(output) == 6 and output.index(1) == 5
            for output in _best(_random_table(5), force_length=6, **search)
        )
    assert _best(Table(SHORT), beam_size=1, min_length=2, max_length=5) == [[2, 3, 1]]


def test_outputs_are_at_most_as_long_as_their_own_input_and_the_extra_symbols() -> None:
    endless = Table([[0, 0, 1], [0, 0, 1], [0, 0, 1]])
    inputs = np.array([[5, 6, 7, 1], [5, 1, 0, 0], [0, 0, 0, 0]], np.int32)
    for options in ({"beam_size": 1}, {"beam_size": 2}, {"sampling": True}):
        found = decode(endless, {"inputs": inputs}, DecodeConfig(extra_length=3, **options))
        assert [len(one) for one in unpadded(found.symbols[:, 0])] == [7, 5, 3]
    # What was cut at its own length has that length's penalty.
    table = Table([[0, 0, 0.5, 0.5]] * 4)
    found = decode(table, {"inputs": inputs}, DecodeConfig(extra_length=3, beam_size=2, alpha=1.0))
    np.testing.assert_allclose(
        found.scores[:, 0], [n * math.log(0.5) / penalty(n, 1.0) for n in (7, 5, 3)], rtol=1e-5
    )


def test_what_was_cut_stands_behind_what_has_ended() -> None:
    # 2 goes on for ever and is far more probable than the end.
    table = Table([[0, 0.01, 0.99], [0, 1, 0], [0, 0.01, 0.99]])
    found = _decode(table, beam_size=3, n_best=3, max_length=2, alpha=0.0)
    assert unpadded(found.symbols[0]) == [[1], [2, 1], [2, 2]]
    np.testing.assert_allclose(found.scores[0], np.log([0.01, 0.99 * 0.01, 0.99 * 0.99]), rtol=1e-4)


def test_fewer_possible_outputs_than_asked_for() -> None:
    found = _decode(
        Table([[0, 0, 0.7, 0.3], [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]),
        beam_size=4,
        n_best=4,
        max_length=5,
    )
    assert unpadded(found.symbols[0]) == [[2, 1], [3, 1], [], []]
    assert np.isneginf(found.scores[0, 2:]).all()


def test_a_search_ends_as_soon_as_nothing_can_become_better() -> None:
    # Asked for a third position, this model raises: after [1] with .98, nothing of probability .02
    # or less can win at alpha 0 …
    certain = [[0, 0.98, 0.01, 0.01], [0, 1, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]]
    assert _best(Table(certain, steps=1), beam_size=2, alpha=0.0, max_length=50) == [[1]]
    # … but two outputs were asked for, or length is rewarded enough.
    with pytest.raises(tf.errors.InvalidArgumentError, match="goes on"):
        _best(Table(certain, steps=1), beam_size=2, n_best=2, alpha=0.0, max_length=50)
    with pytest.raises(tf.errors.InvalidArgumentError, match="goes on"):
        _best(Table(certain, steps=1), beam_size=2, alpha=2.5, max_length=50)
    for options in ({"beam_size": 1}, {"sampling": True}):
        assert _best(
            Table([[0, 0, 1], [0, 0, 0], [0, 1, 0]], steps=2), max_length=50, **options
        ) == [[2, 1]]


def test_padding_is_never_chosen() -> None:
    table = Table([[0.9, 0.05, 0.05]] * 3)
    for options in (
        {"beam_size": 1},
        {"beam_size": 2, "n_best": 2},
        {"sampling": True, "n_best": 9},
    ):
        found = _decode(table, max_length=20, **options)
        for symbols in found.symbols[0]:
            output = [int(symbol) for symbol in symbols]
            written = len(unpadded([output])[0])
            assert written >= 1 and not any(output[written:])


def test_prefixes_begin_every_output_and_count_in_the_score() -> None:
    table, prefix = _random_table(6), np.array([[3, 2, 4], [5, 0, 0]], np.int32)
    for options in (
        {"beam_size": 1},
        {"beam_size": 3, "n_best": 3, "alpha": 0.0},
        {"sampling": True, "n_best": 3},
    ):
        config = DecodeConfig(extra_length=4, **options)
        search = tf.function(
            lambda given, config=config: decode(table, {"prefix": given}, config),
            input_signature=[tf.TensorSpec([None, None], tf.int32)],
            autograph=False,
        )
        found = Decoded(*(part.numpy() for part in search(prefix)))
        for symbols, scores, given in zip(
            found.symbols, found.scores, ([3, 2, 4], [5]), strict=True
        ):
            for output, score in zip(unpadded(symbols), scores, strict=True):
                assert output[: len(given)] == given and len(output) <= len(given) + 4
                assert table.log_probability(output) == pytest.approx(float(score), rel=1e-4)


def test_an_example_is_decoded_alike_in_any_company() -> None:
    model = random_model(halting="basic", act_max_steps=3)
    config = DecodeConfig(beam_size=2, n_best=2, max_length=3)
    together = decode(model, {"inputs": INPUTS}, config)
    for row, inputs in enumerate(INPUTS[:2]):
        alone = decode(model, {"inputs": inputs[None, inputs != 0]}, config)
        assert unpadded(alone.symbols[0]) == unpadded(together.symbols[row])
        assert_close(alone.scores[0], together.scores[row], 1e-4)


def test_examples_that_have_ended_are_left_out_of_the_batch() -> None:
    seen = []

    class Watched(Table):
        def decode_step(self, symbols: Any, step: Any, cache: dict[str, Any]) -> Any:
            seen.append(len(symbols))
            return super().decode_step(symbols, step, cache)

    # The first symbols of an input are its output's prefix: 2 ends at once, 3 goes on.
    table = Watched([[0, 0, 0.5, 0.5], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    found = decode(
        table,
        {"prefix": np.array([[2], [3], [2], [2]], np.int32)},
        DecodeConfig(beam_size=1, max_length=40),
    )
    assert unpadded(found.symbols[:, 0]) == [[2, 1], [3] * 40, [2, 1], [2, 1]]
    assert seen[0] == 4 and seen[-1] == 1 and len(seen) == 40


@pytest.mark.slow
def test_scores_are_those_of_the_whole_sequences() -> None:
    model = random_model()
    found = decode(
        model, {"inputs": INPUTS}, DecodeConfig(beam_size=3, n_best=3, max_length=5, alpha=0.6)
    )
    for rank in range(3):
        symbols = found.symbols[:, rank]
        lengths = np.count_nonzero(symbols, 1)
        expected = log_probabilities(model, {"inputs": INPUTS, "targets": symbols}) / [
            penalty(n, 0.6) for n in lengths
        ]
        assert_close(found.scores[:, rank], expected, 1e-4)


def test_log_probabilities_of_symbols_and_of_classes() -> None:
    model = random_model()
    targets = np.array([[4, 1, 0], [1, 0, 0], [3, 2, 1]], np.int32)
    logits = tf.nn.log_softmax(model({"inputs": INPUTS, "targets": targets})).numpy()
    expected = [
        sum(row[place, symbol] for place, symbol in enumerate(symbols) if symbol)
        for row, symbols in zip(logits, targets, strict=True)
    ]
    np.testing.assert_allclose(
        log_probabilities(model, {"inputs": INPUTS, "targets": targets}), expected, rtol=1e-5
    )
    classifier = random_model(spec=CLASSES)
    classes = tf.nn.log_softmax(classifier({"inputs": INPUTS})).numpy()
    found = log_probabilities(
        classifier, {"inputs": INPUTS, "targets": np.array([1, 0, 2], np.int32)}
    )
    np.testing.assert_allclose(found, classes[[0, 1, 2], [1, 0, 2]], rtol=1e-5)


def test_samples_follow_the_distribution() -> None:
    probabilities = [0.0, 0.1, 0.2, 0.3, 0.4]
    table = Table([probabilities, *[[0, 1, 0, 0, 0]] * 4])
    found = _decode(table, sampling=True, n_best=4000, max_length=2)
    counts = np.bincount(found.symbols[0, :, 0], minlength=5) / 4000
    assert_close(counts, probabilities, 0.03)
    assert (np.diff(found.scores[0]) <= 0).all()


def test_samples_depend_on_the_seed_and_the_examples_number_alone() -> None:
    model, config = random_model(), DecodeConfig(sampling=True, n_best=2, max_length=3)

    def samples(inputs: Any, numbers: Any, seed: Any) -> list[list[list[int]]]:
        return [
            unpadded(one)
            for one in decode(model, {"inputs": inputs}, config, seed=seed, numbers=numbers).symbols
        ]

    first = samples(INPUTS, [7, 8, 9], 1)
    assert first == samples(INPUTS, [7, 8, 9], [1, 0])
    assert samples(INPUTS[[2, 0]], [9, 7], 1) == [first[2], first[0]]
    assert samples(INPUTS, [7, 8, 9], 2) != first and samples(INPUTS, [1, 2, 3], 1) != first
    draws = uniform_draws(tf.constant([1, 0]), tf.constant([4, 5]), 50, 3).numpy()
    np.testing.assert_array_equal(
        uniform_draws(tf.constant([1, 0]), tf.constant([5]), 9, 3), draws[1:, :9]
    )
    assert len(np.unique(draws)) > 290


@pytest.mark.parametrize("vocab", [640, 1000])
def test_the_best_of_many_symbols_are_found_by_groups(vocab: int) -> None:
    draws = np.random.default_rng(4)
    # Few different values: of equal ones the first counts, also across groups.
    for logits in (draws.normal(size=[3, 2, vocab]), draws.integers(0, 9, [3, 2, vocab])):
        logits = tf.constant(np.where(logits == 3, -np.inf, logits), tf.float32)
        for found, expected in zip(best_symbols(logits, 8), tf.math.top_k(logits, 8), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_temperature_top_k_and_top_p() -> None:
    logits = np.log([[[0.05, 0.5, 0.15, 0.3]]]).astype(np.float32)
    uniform = np.linspace(0, 0.999, 200, dtype=np.float32)[None]
    many = np.repeat(logits, 200, 1)

    def shares(**options: Any) -> list[float]:
        drawn = draw(
            tf.constant(many), tf.constant(uniform), DecodeConfig(sampling=True, **options)
        ).numpy()
        return (np.bincount(drawn[0], minlength=4) / 200).tolist()

    assert_close(shares(), [0.05, 0.5, 0.15, 0.3], 0.01)
    assert_close(shares(top_k=2), [0, 0.625, 0, 0.375], 0.01)
    assert_close(shares(top_k=99), [0.05, 0.5, 0.15, 0.3], 0.01)
    assert_close(shares(top_p=0.81), [0, 0.5 / 0.95, 0.15 / 0.95, 0.3 / 0.95], 0.01)
    assert_close(shares(top_p=0.01), [0, 1, 0, 0], 1e-6)
    squares = np.array([0.05, 0.5, 0.15, 0.3]) ** 2
    assert_close(shares(temperature=0.5), squares / squares.sum(), 0.01)
