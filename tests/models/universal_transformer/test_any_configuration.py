"""Any configuration: all ways to compute it give the same outputs and gradients.

Dense (every position at every step), compact (positions that have not halted), incremental (one
position after the other, given the earlier ones), to a given depth, traced and exported.
"""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from tests.configs import small_config
from tests.search.models import (
    CLASSES,
    INPUTS,
    LANGUAGE,
    SIZES,
    SPEC,
    assert_steps_give_whole_logits,
    random_model,
)
from ut_tf.errors import UserError
from ut_tf.layers.recurrence_details import GivenDepth
from ut_tf.models.universal_transformer.compact_loop import can_skip_halted
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec

TARGETS = np.array([[3, 4, 5, 1], [8, 1, 0, 0], [5, 6, 1, 0]], np.int32)
ALIGNED = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
# What training may be given besides its examples.
UPDATE = {"update": np.array([3, 5])}
FIELDS: dict[str, list[Any]] = {
    "spec": [SPEC, SPEC, LANGUAGE, ALIGNED, ALIGNED, ALIGNED, CLASSES],
    "supervision": [{}, {}, {"every_step": np.array(1)}, {"drawn_steps": np.array([1, 1], "i")}],
    "recurrence": ["basic", "highway", "skip", "gru", "lstm", "dwa"],
    "recurrence_layers": [1, 1, 2],
    "H_cycles": [0, 0, 0, 1, 2],
    "L_cycles": [1, 2],
    "two_nets": [False, True],
    "cycle_backprop": ["last_cycle", "last_call", "all"],
    "train_depth": ["fixed", "fixed", "poisson", "lognormal_poisson", "uniform"],
    "backprop_steps": [0, 0, 1],
    "eval_num_steps": [1, 2, 3],
    "initial_state": ["inputs", "inputs", "zeros", "learned", "fixed", "noise"],
    "memory_tokens": [0, 0, 2],
    "memory_positions": [False, True],
    "mix_positions": [0, 0, 0, 0, 8],
    "mix_filter_size": [12],
    "prediction_feedback": [False, False, True],
    "q_head": [False, True],
    "halting": ["none", "basic", "basic", "accumulated", "global", "pondernet"],
    "act_halting_bias_init": [-1.0, 0.3],
    "act_last_step": ["open", "remainder"],
    "act_max_steps": [3],
    "eval_act_max_steps": [2, 3],
    "halted_states": ["copy", "copy", "transform"],
    "padding_ponders": [False, True],
    "steps_per_position": [0.0, 0.0, 0.5],
    "transition": ["fc", "swiglu", "sepconv", "shift"],
    "attention_bias": [False, True],
    "head_size": [0, 0, 6],
    "norm": ["post", "pre", "sandwich", "peri"],
    "norm_type": ["layer", "layer", "rms", "rms_plain"],
    "residual_scale": [1.0, 0.5],
    "outer_norm": [False, False, True],
    "state_update": [1.0, 0.7],
    "qk_norm": [False, False, True],
    "qk_bias": [False, False, True],
    "input_injection": ["none", "none", "add", "concat", "diagonal"],
    "coordinate_form": ["add", "add", "concat"],
    "step_encoding": ["sinusoid", "learned", "none"],
    "position": ["paper", "tensor2tensor", "learned", "rotary", "none"],
    "position_every_step": [True, False],
    "position_shift": ["none", "none", "step"],
    "position_from": ["start", "both"],
    "relative_bias": [0, 2],
    "attention_scale": ["constant", "log_length"],
    "attention_scale_length": [4],
    "mix_layers_before": [0, 0, 1],
    "mix_layers_after": [0, 0, 1],
    "norm_after_recurrence": [False, True],
    "recurrent_layer": ["none", "none", "gru"],
    "eval_exit": ["none"] * 9
    + ["state_difference", "acceleration", "entropy", "kl", "argmax_stable"]
    + ["cosine", "kl_reverse", "minp_kl", "argmax_equal", "confidence", "q"],
    "eval_exit_threshold": [0.03, 0.4, 3.0],
}


class _Possible(Exception):
    """The configuration is one."""


class _Unmade(UniversalTransformer):
    """A model that ends where its parts would be made."""

    def make_parts(self) -> None:
        raise _Possible


def is_possible(spec: ProblemSpec, **changes: Any) -> bool:
    """Whether the changes make a configuration of a model for the spec."""
    try:
        _Unmade(small_config(UniversalTransformer, SIZES, **changes), spec)
    except UserError:
        return False
    except _Possible:
        return True
    raise AssertionError


def drawn(seed: int) -> dict[str, Any]:
    """A value of each field, of those that go together: in a drawn order each that fits those
    before it.
    """
    draws, given = random.Random(seed), ("spec", "supervision")
    values = {name: draws.choice(choices) for name, choices in FIELDS.items()}
    order = draws.sample(list(FIELDS), len(FIELDS))
    kept: dict[str, Any] = {"spec": values["spec"]}
    for name in order:
        # Two levels have no injection, and what begins elsewhere needs one.
        several = {name: values[name]}
        if name == "initial_state" and not kept.get("H_cycles"):
            several["input_injection"] = values["input_injection"]
        if name not in given and is_possible(**{**kept, **several}):
            kept |= several
    if kept.get("mix_positions"):
        kept["mix_positions"] = INPUTS.shape[1] + kept.get("memory_tokens", 0)
    return kept | {name: values[name] for name in given}


CONFIGURATIONS = st.integers(0, 2**32).map(drawn)
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}


def made(spec: ProblemSpec = SPEC, **changes: Any) -> Any:
    """The model, whose weights depend on the seed alone."""
    changes.pop("supervision", None)
    return random_model(spec=spec, **changes, **NO_DROPOUT)


def features_of(model: Any) -> dict[str, Any]:
    targets = {"targets": tf.constant(TARGETS)} if model.has_decoder else {}
    return {"inputs": tf.constant(INPUTS), **targets} if model.has_encoder else targets


def results(
    model: Any, training: bool, further: dict[str, Any] | None = None
) -> tuple[list[Any], list[Any]]:
    """Logits of real symbols and ponder times; and, in training, the gradients."""
    features = features_of(model)
    given = {**features, **(further or {})}
    weights = [weight.value for weight in model.trainable_variables]
    with tf.GradientTape() as tape:
        logits, details = model(given, training=training, return_details=True)
        if not model.spec.has_one_answer:
            side = features["targets" if model.has_decoder else "inputs"]
            logits *= tf.cast(side != 0, tf.float32)[..., None]
        loss = tf.add_n([tf.reduce_sum(tf.square(logits)), *model.losses])
    parts = [part for part in details if part is not None]
    found = [logits, *(part.ponder_times for part in parts)]
    found += [part.q_values for part in parts if part.q_values is not None]
    if not training:
        return found, []
    gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
    return found, [tf.convert_to_tensor(gradient) for gradient in gradients]


def check(configuration: dict[str, Any]) -> None:
    """Asserts that dense, compact and incremental ways agree, and those to a given depth; and that
    an example gives the same alone, with padding in front instead of behind.
    """
    model = made(**configuration)
    dense = made(**{**configuration, "halting_compute": "dense"})
    further = configuration["supervision"]
    if not model.has_step_answers:
        further = {}
    for training in (True, False):
        given = {**UPDATE, **further} if training else {}
        expected, gradients = results(dense, training, given)
        found, others = results(model, training, given)
        assert_all_close(found, expected, 3e-5)
        assert_all_close(others, gradients, 1e-4)
    check_alone(model, configuration, expected[0])
    if model.goes_deeper:
        depth = GivenDepth(tf.constant(model.max_steps(training=False)))
        assert_all_close(results(model, False, {"to_depth": depth})[0], expected, 3e-5)
    if model.supports_incremental_decoding:
        assert_steps_give_whole_logits(model, 3)


def check_alone(model: Any, configuration: dict[str, Any], expected: Any) -> None:
    shifted = configuration.get("position_shift", "none") != "none"
    if configuration.get("padding_ponders") or shifted or configuration.get("mix_positions"):
        return
    inputs, targets = np.pad(INPUTS[1:2, :3], [(0, 0), (1, 0)]), TARGETS[1:2, :2]
    alone = model(targets if not model.has_encoder else {"inputs": inputs, "targets": targets})
    if model.has_decoder:
        expected = expected[1:2, :2]
    elif not model.spec.has_one_answer:
        expected, alone = expected[1:2, :3], alone[:, 1:]
    else:
        expected = expected[1:2]
    assert_close(expected, alone, 3e-5)


def assert_all_close(found: list[Any], expected: list[Any], tolerance: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, tolerance)


def check_exported(configuration: dict[str, Any]) -> None:
    """Asserts that an exported model gives what the model gives."""
    model = made(**configuration)
    features = features_of(model)
    expected = model(features)
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "exported")
        model.export(path, verbose=False)
        served = tf.saved_model.load(path)
        assert_close(served.serve(features), expected, 3e-5)


# Making a failure smaller would take minutes; the configuration is printed as it is.
RULES: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
    "derandomize": True,
}


@pytest.mark.slow
@settings(max_examples=60, **RULES)
@given(CONFIGURATIONS)
def test_all_ways_to_compute_a_configuration_agree(configuration: dict[str, Any]) -> None:
    check(configuration)


@pytest.mark.slow
@settings(max_examples=8, **RULES)
@given(CONFIGURATIONS)
def test_exported_configurations_agree(configuration: dict[str, Any]) -> None:
    check_exported(configuration)


@pytest.mark.slow
def test_the_configurations_halt_and_skip() -> None:
    """Otherwise dense and compact would be the same loop."""
    model = made(halting="basic", act_max_steps=6, act_halting_bias_init=-1.5)
    recurrence = model.encoder
    assert can_skip_halted(recurrence.recurrent_step, recurrence.halting_unit)
    times = results(model, training=True)[0][1]
    assert len(set(times[0].numpy())) > 1


def test_kept_keys_are_rotated_as_the_step_moves_them() -> None:
    options = {"position": "rotary", "halting": "basic", "act_halting_bias_init": -0.5}
    compact, dense = (made(**options, halting_compute=compute) for compute in ("auto", "dense"))
    for one, other in zip(results(compact, False)[0], results(dense, False)[0], strict=True):
        assert_close(one, other, 3e-5)
