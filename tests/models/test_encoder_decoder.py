"""LSTMs and convolutions as whole models: padding, batch-mates, causality, decoding with what they
carry along, and what they refuse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.search.models import (
    CLASSES,
    INPUTS,
    LANGUAGE,
    SPEC,
    VOCAB,
    assert_steps_give_whole_logits,
    random_model,
)
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.models.convolutional.bytenet import ByteNet
from ut_tf.models.convolutional.convs2s import ConvS2S
from ut_tf.models.lstm.config import LSTMConfig
from ut_tf.models.lstm.model import LSTMModel
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.stepper import make_stepper

TARGETS = np.array([[3, 4, 5, 8, 1], [7, 1, 0, 0, 0], [2, 2, 6, 1, 0]], np.int32)
FACT_INPUTS = np.array([[[3, 4, 0], [5, 6, 7]], [[8, 0, 0], [0, 0, 0]]], np.int32)
WORDS = ProblemSpec("tokens", "word", VOCAB, VOCAB, shared_vocab=True)
FACT_CLASSES = ProblemSpec("facts", "class", VOCAB, 4, max_words=3)
VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (LSTMModel, {"lstm_direction": "backward"}),
    "lstm, luong": (LSTMModel, {"lstm_attention": "luong", "shared_embedding": False}),
    "lstm, bahdanau": (LSTMModel, {"lstm_attention": "bahdanau", "lstm_direction": "both"}),
    "convs2s": (ConvS2S, {}),
    "bytenet": (ByteNet, {"num_layers": 3, "max_dilation": 2, "source_stretch": 1.5}),
}
WITHOUT_INPUTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (LSTMModel, {}),
    "convs2s": (ConvS2S, {"learned_positions": 3, "conv_kernel": 5}),
    "bytenet": (ByteNet, {"num_layers": 3}),
}
CLASSIFIERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm, backward": (LSTMModel, {"lstm_direction": "backward"}),
    "lstm, both, mean": (LSTMModel, {"lstm_direction": "both", "summary": "mean"}),
    "convs2s": (ConvS2S, {"position": "none"}),
    "bytenet": (ByteNet, {"source_stretch": 1.5}),
}


# The others are of the same parts.
QUICK = ("lstm, bahdanau", "convs2s", "bytenet")


def each(variants: dict[str, tuple[Any, dict[str, Any]]]) -> Any:
    return pytest.mark.parametrize(("kind", "changes"), _cases(variants))


def _cases(variants: dict[str, tuple[Any, dict[str, Any]]]) -> list[Any]:
    return [
        pytest.param(*made, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, made in variants.items()
    ]


@pytest.fixture(
    scope="module",
    params=[pytest.param(case.values, id=case.id, marks=case.marks) for case in _cases(VARIANTS)],
)
def variant(request: pytest.FixtureRequest) -> Any:
    """A model of each variant, whose weights no test changes."""
    kind, changes = request.param
    return random_model(kind, **changes)


def test_padding_and_batch_mates_change_nothing(variant: Any) -> None:
    together = variant({"inputs": INPUTS, "targets": TARGETS})
    alone = variant({"inputs": INPUTS[1:2, :3], "targets": TARGETS[1:2, :2]})
    assert_close(together[1:2, :2], alone, 1e-5)


def test_no_position_sees_a_later_one(variant: Any) -> None:
    changed = TARGETS.copy()
    changed[:, 2] = 4 + changed[:, 2] % 3
    before, after = (
        variant({"inputs": INPUTS, "targets": targets}) for targets in (TARGETS, changed)
    )
    assert_close(before[:, :3], after[:, :3], 1e-6)
    assert np.abs(before[:, 3] - after[:, 3]).max() > 1e-4


def test_steps_give_the_logits_of_whole_prefixes(variant: Any) -> None:
    assert_steps_give_whole_logits(variant, steps=4)


@each(WITHOUT_INPUTS)
def test_language_models_score_and_go_on_alike(kind: Any, changes: dict[str, Any]) -> None:
    model = random_model(kind, spec=LANGUAGE, **changes)
    symbols = np.array([[4, 5, 6, 2, 3], [6, 3, 3, 7, 8]], np.int32)
    whole, stepper = model({"targets": symbols}), make_stepper(model, beam_size=1)
    cache = stepper.start({"batch_size": tf.constant(2)}, 2, 5)
    for index, before in enumerate(np.pad(symbols, [(0, 0), (1, 0)])[:, :-1].T):
        logits, cache = stepper.step(tf.constant(before), tf.constant(index), cache)
        assert_close(logits, whole[:, index], 3e-5)


@each(CLASSIFIERS)
def test_classifiers_read_facts_and_tokens(kind: Any, changes: dict[str, Any]) -> None:
    for spec, inputs in ((FACT_CLASSES, FACT_INPUTS), (CLASSES, INPUTS)):
        model = random_model(kind, spec=spec, **changes)
        logits, details = model({"inputs": inputs}, return_details=True)
        alone = model({"inputs": inputs[1:2, : 1 if spec.inputs == "facts" else 3]})
        assert_close(logits[1:2], alone, 1e-5)
        assert logits.shape == (len(inputs), 4) and details.decoder is None
        with pytest.raises(UserError, match="writes no sequence"):
            model.generate({"inputs": inputs})


def test_inputs_alone_are_what_outputs_are_written_for() -> None:
    model = random_model(LSTMModel)
    options = {"beam_size": 1, "extra_length": 0}
    written = model.generate({"inputs": INPUTS[:1, :2]}, **options).symbols
    assert np.array_equal(model.generate(INPUTS[:1, :2], **options).symbols, written)
    with pytest.raises(UserError, match="needs batch_size or prefix"):
        random_model(LSTMModel, spec=LANGUAGE).generate(INPUTS)


@pytest.mark.slow
def test_attention_is_told() -> None:
    for changes, attentions in (
        ({"lstm_attention": "bahdanau"}, 1),
        ({"lstm_attention": "luong"}, 1),
        ({}, 0),
    ):
        _, details = random_model(LSTMModel, **changes)(
            {"inputs": INPUTS, "targets": TARGETS}, return_attention=True
        )
        np.testing.assert_array_equal(details.encoder.ponder_times, 2.0 * (INPUTS != 0))
        weights = details.decoder.memory_attention_weights
        if not attentions:
            assert weights is None
            continue
        assert weights.shape == (attentions, 3, 1, 5, 6)
        assert_close(tf.reduce_sum(weights * (INPUTS != 0)[None, :, None, None], -1), 1.0, 1e-5)


@pytest.mark.parametrize("model", ["lstm", "bytenet", "neural_gpu", "memn2n"])
def test_a_model_without_heads_may_have_any_even_width(model: str) -> None:
    assert HParams(model).change(hidden_size=30).resolve().network.hidden_size == 30
    with pytest.raises(UserError, match="hidden_size=30 is not a multiple of num_heads=4"):
        HParams(model="transformer").change(hidden_size=30, num_heads=4).resolve()


@pytest.mark.parametrize(
    ("spec", "change", "expected"),
    [
        (LANGUAGE, {"lstm_attention": "luong"}, "joins a decoder to an encoder"),
        (CLASSES, {"lstm_attention": "bahdanau"}, "joins a decoder to an encoder"),
        (LANGUAGE, {"lstm_direction": "both"}, "a language model has none"),
        (WORDS, {"lstm_direction": "backward"}, "reads the last word first"),
    ],
)
def test_what_an_lstm_cannot_do_for_a_problem_is_refused(
    spec: ProblemSpec, change: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        LSTMModel(LSTMConfig(**change), spec)


TARGET_FORMS = np.array([[3, 4, 5, 8, 6, 1], [7, 2, 3, 1, 0, 0], [2, 2, 6, 1, 0, 0]], np.int32)
HALTING: dict[str, Any] = {"act_max_steps": 4, "act_halting_bias_init": -0.5}


def _model(form: str, spec: ProblemSpec, **changes: Any) -> Any:
    return random_model(spec=spec, halting=form, **({} if form == "none" else HALTING), **changes)


def _features(spec: ProblemSpec, targets: Any) -> dict[str, Any]:
    return {"targets": targets} if spec.inputs == "none" else {"inputs": INPUTS, "targets": targets}


def _logits(model: Any, targets: np.ndarray) -> np.ndarray:
    """Returns float32 [batch, length, vocab]; random halting draws the same numbers at
    every call.
    """
    units = [
        layer.seed_generator
        for layer in model._flatten_layers()
        if getattr(layer, "seed_generator", None) is not None
    ]
    for number, generator in enumerate(units):
        generator.state.assign([number, 0])
    return np.asarray(model(_features(model.spec, targets)))


def _influence(model: Any, position: int) -> np.ndarray:
    """Returns by how much the target at `position` of the first example changes its logits, float32
    [length].
    """
    changed = TARGET_FORMS.copy()
    changed[0, position] = 9 - changed[0, position]
    return np.abs(_logits(model, changed) - _logits(model, TARGET_FORMS))[0].max(-1)


@pytest.mark.parametrize(
    ("form", "spec", "halted_states"),
    [
        ("global", SPEC, "copy"),
        ("global", LANGUAGE, "copy"),
        *(
            pytest.param(form, SPEC, "transform", marks=pytest.mark.slow)
            for form in ("basic", "global")
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else f"inputs={value.inputs}",
)
@pytest.mark.usefixtures("eager")
def test_no_target_reaches_an_earlier_logit(
    form: str, spec: ProblemSpec, halted_states: str
) -> None:
    found = _influence(
        _model(
            form, spec, halted_states=halted_states, padding_ponders=halted_states == "transform"
        ),
        3,
    )
    assert found[:4].max() < 1e-4 < 1e-3 < found[4:].max()


@pytest.mark.usefixtures("eager")
def test_the_mean_over_the_sequence_sees_later_targets() -> None:
    """What tensor2tensor does, and why it is not the default; here its effect on the first logits
    can be measured.
    """
    assert _influence(_model("global", LANGUAGE, global_mean="sequence"), 3)[:3].max() > 1e-3


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_padding_and_batch_mates_do_not_change_the_mean_so_far() -> None:
    model = _model("global", SPEC, padding_ponders=True)
    together = model({"inputs": INPUTS[:1], "targets": TARGET_FORMS[2:]})
    alone = model({"inputs": INPUTS[:1], "targets": TARGET_FORMS[2:, :4]})
    assert_close(together[:, :4], alone, 1e-5)
