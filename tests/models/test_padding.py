"""Padding anywhere, batches in any order and ids of any dtype: symbols alone count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import ut_tf
from tests.conformance.cases import ALIGNED, CASES, SEQUENCES, Case, network
from ut_tf.errors import UserError, marked_in
from ut_tf.metrics.losses import expected_cross_entropy, smoothed_cross_entropy
from ut_tf.models.transformer.model import Transformer
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.scoring import log_probabilities

MODELS = [case for case in CASES if case.is_model]
QUICK = {"UniversalTransformer sequences, halting"}
DTYPES = ("int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
CLASSES = ProblemSpec("tokens", "class", 12, 3)
_MADE: dict[str, Any] = {}


def cases() -> list[Any]:
    marks = {True: (), False: (pytest.mark.slow,)}
    return [pytest.param(case, id=case.name, marks=marks[case.name in QUICK]) for case in MODELS]


def spread(ids: np.ndarray, draw: np.random.Generator, width: int) -> tuple[np.ndarray, Any]:
    """The ids [batch, length, ...] with `width` columns, the padding of each row anywhere; and
    where each column's symbol now stands, [batch, length], -1 of padding.
    """
    moved = np.zeros((len(ids), width, *ids.shape[2:]), ids.dtype)
    places = np.full(ids.shape[:2], -1)
    for row, example in enumerate(ids):
        symbols = np.flatnonzero(example.reshape(len(example), -1).any(1))
        places[row, symbols] = np.sort(draw.choice(width, len(symbols), replace=False))
        moved[row, places[row, symbols]] = example[symbols]
    return moved, places


def model_of(case: Case) -> Any:
    if case.name not in _MADE:
        keras.utils.set_random_seed(1)
        _MADE[case.name] = case.make("float32")
    return _MADE[case.name]


def answers(logits: Any, places: np.ndarray | None) -> np.ndarray:
    """The logits of a model's answers, one row for each."""
    logits = np.asarray(logits)
    if logits.ndim == 2:
        return logits
    rows, columns = np.nonzero(places >= 0)
    return logits[rows, places[rows, columns]]


def assert_equal(one: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * max(1.0, np.abs(one).max()))


@pytest.mark.parametrize("case", cases())
@settings(max_examples=1, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), dtype=st.sampled_from(DTYPES))
def test_only_the_symbols_count(case: Case, seed: int, dtype: str) -> None:
    model, draw = model_of(case), np.random.default_rng(seed)
    order = draw.permutation(len(next(iter(case.inputs.values()))))
    moved, places = {}, {}
    for name, ids in case.inputs.items():
        # As long as before: a longer image of a Neural GPU has other rows of padding.
        moved[name], places[name] = spread(ids[order], draw, ids.shape[1])
        moved[name] = moved[name].astype(dtype)
    name = "targets" if "targets" in case.inputs else "inputs"
    is_symbol = places[name] >= 0
    expected = np.asarray(model(case.inputs))[order]
    expected = answers(expected, np.where(is_symbol, np.arange(is_symbol.shape[1]), -1))
    assert_equal(expected, answers(model(moved), places[name]))


def halting_model(spec: ProblemSpec = CLASSES, **changes: Any) -> Any:
    keras.utils.set_random_seed(0)
    options = {
        "halting": "basic",
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "relu_dropout": 0.0,
        **changes,
    }
    return UniversalTransformer(network(UniversalTransformer, **options), spec)


FRONT = np.array([[0, 0, 5, 7, 3], [0, 4, 0, 6, 0], [3, 4, 5, 6, 7]])
BEHIND = np.array([[5, 7, 3, 0, 0], [4, 6, 0, 0, 0], [3, 4, 5, 6, 7]])


@pytest.mark.slow
def test_a_classifier_reads_the_last_symbol_when_exported(tmp_path: Path) -> None:
    model = halting_model(halting="none")
    expected = model({"inputs": BEHIND}).numpy()
    assert_equal(expected, model({"inputs": FRONT}).numpy())
    model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    assert_equal(expected, loaded.serve({"inputs": tf.constant(FRONT, tf.int32)}).numpy())
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        loaded.serve({"inputs": tf.constant([[3, 4], [5, 12]])})
    assert "row 1 of the inputs holds the id 12," in str(marked_in(error.value))


def test_details_and_views_stand_where_the_symbols_stood() -> None:
    model = halting_model(ALIGNED, input_start_symbol=True)
    views: list[Any] = []

    def watch(ids: np.ndarray) -> Any:
        return model({"inputs": ids}, return_attention=True, observer=views.append)[1].encoder

    behind, front = watch(BEHIND), watch(FRONT)
    places = [0, 3, 4, 5]  # The start symbol, and the three symbols of the first row.
    for name in ("ponder_times", "remainders", "mask"):
        one, other = getattr(behind, name)[0], getattr(front, name)[0]
        assert_equal(one.numpy()[:4], other.numpy()[places])
        assert not other[1:3].numpy().any()
    weights = front.attention_weights.numpy()[:, 0][:, :, places][..., places]
    assert_equal(behind.attention_weights.numpy()[:, 0, :, :4, :4], weights)
    first, second = views[0], views[len(views) // 2]
    assert_equal(first.state.numpy()[0, :4], second.state.numpy()[0][places])
    assert_equal(
        first.halting.halting_sum.numpy()[0, :4], second.halting.halting_sum.numpy()[0][places]
    )


def test_the_encoder_layer_takes_its_mask() -> None:
    keras.utils.set_random_seed(0)
    layer = ut_tf.layers.UniversalTransformerEncoder(
        hidden_size=8, num_heads=2, filter_size=16, halting="basic", return_ponder_times=True
    )
    states = np.random.default_rng(0).normal(size=(1, 3, 8)).astype("float32")
    alone, times = layer(states)
    padded = np.concatenate(
        [np.full((1, 2, 8), 9.0), states[:, :1], states[:, :1], states[:, 1:]], 1
    )
    mask = np.array([[False, False, True, False, True, True]])
    moved, moved_times = layer(padded.astype("float32"), mask=mask)
    assert_equal(alone[0].numpy(), moved[0].numpy()[mask[0]])
    np.testing.assert_array_equal(times[0], moved_times[0].numpy()[mask[0]])


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_generation_takes_padding_anywhere() -> None:
    model = Transformer(network(Transformer), SEQUENCES)
    prefixes = (np.array([[5, 6, 0]]), np.array([[0, 5, 6]]))
    written = [
        model.generate(
            {"inputs": ids[:1], "prefix": prefix}, beam_size=1, max_length=4
        ).symbols.numpy()
        for ids, prefix in zip((BEHIND, FRONT), prefixes, strict=True)
    ]
    np.testing.assert_array_equal(*written)
    with pytest.raises(UserError, match="row 0 of the prefix holds the id 12,"):
        model.generate({"inputs": BEHIND, "prefix": [[5, 12]]})
    with pytest.raises(UserError, match="row 1 of the inputs holds the id -1,"):
        model.generate({"inputs": [[5, 1], [-1, 300]]})


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (np.array([[3, 4], [12, -1]]), "row 1 of the inputs holds the id 12, "),
        (np.array([[3, 2**63 + 3]], np.uint64), "row 0 of the inputs holds the id "),
        (np.array([[3.0, 1.5]]), "holds the id 1.5, "),
        (np.array([[True, False]]), "the inputs are of dtype bool, "),
        (np.array([["a"]]), "the inputs are of dtype string, "),
        (np.array([3, 4]), r"the inputs have the shape \[2\], "),
    ],
)
def test_what_is_no_id_is_named(ids: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        halting_model()({"inputs": ids})


def test_ragged_ids_are_padded() -> None:
    model = halting_model()
    assert_equal(
        model({"inputs": tf.ragged.constant([[5, 7, 3], [4, 6]])}).numpy(),
        model({"inputs": BEHIND[:2, :3]}).numpy(),
    )


@pytest.mark.slow
def test_xla_answers_nan_for_a_row_of_unknown_ids_and_takes_padding_anywhere() -> None:
    model = halting_model(halting="none")
    compiled = tf.function(lambda ids: model({"inputs": ids}), jit_compile=True)
    assert_equal(model({"inputs": BEHIND}).numpy(), compiled(FRONT).numpy())
    wrong = FRONT.copy()
    wrong[1, 1] = 12
    logits = compiled(wrong).numpy()
    assert np.isnan(logits[1]).all() and not np.isnan(logits[[0, 2]]).any()


LOGITS = tf.random.stateless_normal([2, 3, 12], [0, 0])
TARGETS = tf.constant([[3, 4, 0], [5, 12, -1]])
WORDS = ProblemSpec("tokens", "word", 12, 12, shared_vocab=True)


@pytest.mark.parametrize("loss", [smoothed_cross_entropy, expected_cross_entropy])
def test_targets_of_a_loss(loss: Any) -> None:
    told = "row 1 of the targets holds the id 12, and the ids of this vocabulary are whole numbers "
    with pytest.raises(UserError, match=told):
        loss(LOGITS, TARGETS)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        tf.function(loss)(LOGITS, TARGETS)
    assert told in str(marked_in(error.value))
    with pytest.raises(UserError, match="row 1 of the targets holds the id -1, "):
        loss(LOGITS[:, 0], tf.constant([11, -1]))


def test_targets_of_a_pointer_and_of_classes() -> None:
    inputs = np.array([[3, 4, 1, 5, 1]])
    for spec in (WORDS, ProblemSpec("tokens", "class", 12, 3)):
        model = UniversalTransformer(network(UniversalTransformer, halting="none"), spec)
        beyond = spec.target_vocab_size
        assert np.isfinite(log_probabilities(model, {"inputs": inputs, "targets": [beyond - 1]}))
        with pytest.raises(UserError, match=f"row 0 of the targets holds the id {beyond}, "):
            log_probabilities(model, {"inputs": inputs, "targets": [beyond]})
