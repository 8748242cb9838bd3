"""Any configuration: all ways to compute it give the same outputs and gradients.

Dense (every position at every step), compact (positions that have not halted), incremental (one
position after the other, given the earlier ones), and traced and exported.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.close import assert_close
from tests.search.models import INPUTS, SPEC, assert_steps_give_whole_logits, random_model
from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.compact_loop import can_skip_halted

TARGETS = np.array([[3, 4, 5, 1], [8, 1, 0, 0], [5, 6, 1, 0]], np.int32)
FIELDS: dict[str, list[Any]] = {
    "recurrence": ["basic", "highway", "skip", "gru", "lstm", "dwa"],
    "recurrence_layers": [1, 1, 2],
    "H_cycles": [0, 0, 0, 2],
    "two_nets": [False, True],
    "halting": ["none", "basic", "basic", "accumulated", "global", "pondernet"],
    "act_halting_bias_init": [-1.0, 0.3],
    "act_last_step": ["open", "remainder"],
    "act_max_steps": [3],
    "eval_act_max_steps": [2, 3],
    "halted_states": ["copy", "copy", "transform"],
    "padding_ponders": [False, True],
    "steps_per_position": [0.0, 0.0, 0.5],
    "transition": ["fc", "swiglu", "sepconv"],
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
    "recurrent_layer": ["none", "none", "gru"],
    "eval_exit": ["none"] * 5
    + ["state_difference", "acceleration", "entropy", "kl", "argmax_stable"],
    "eval_exit_threshold": [0.03, 0.4, 3.0],
}
CONFIGURATIONS = st.fixed_dictionaries(
    {name: st.sampled_from(values) for name, values in FIELDS.items()}
)
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}


def made(**changes: Any) -> Any:
    """The model, whose weights depend on the seed alone; configurations that are none are passed
    over.
    """
    try:
        return random_model(spec=SPEC, **changes, **NO_DROPOUT)
    except UserError:
        assume(False)


def results(model: Any, training: bool) -> tuple[list[Any], list[Any]]:
    """Logits of real targets and ponder times; and, in training, the gradients."""
    features = {"inputs": tf.constant(INPUTS), "targets": tf.constant(TARGETS)}
    weights = [weight.value for weight in model.trainable_variables]
    with tf.GradientTape() as tape:
        logits, details = model(features, training=training, return_details=True)
        logits *= tf.cast(features["targets"] != 0, tf.float32)[..., None]
        loss = tf.add_n([tf.reduce_sum(tf.square(logits)), *model.losses])
    times = [part.ponder_times for part in details]
    if not training:
        return [logits, *times], []
    gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
    return [logits, *times], [tf.convert_to_tensor(gradient) for gradient in gradients]


def check(configuration: dict[str, Any]) -> None:
    """Asserts that dense, compact and incremental ways agree, and that an example gives the same
    alone, with padding in front instead of behind.
    """
    model = made(**configuration)
    dense = made(**configuration, halting_compute="dense")
    for training in (True, False):
        expected, gradients = results(dense, training)
        found, others = results(model, training)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, 3e-5)
        for one, other in zip(others, gradients, strict=True):
            assert_close(one, other, 1e-4)
    if not configuration["padding_ponders"] and configuration["position_shift"] == "none":
        inputs = np.pad(INPUTS[1:2, :3], [(0, 0), (1, 0)])
        alone = model({"inputs": inputs, "targets": TARGETS[1:2, :2]})
        assert_close(expected[0][1:2, :2], alone, 3e-5)
    if model.supports_incremental_decoding:
        assert_steps_give_whole_logits(model, 3)


def check_exported(configuration: dict[str, Any]) -> None:
    """Asserts that an exported model gives what the model gives."""
    model = made(**configuration)
    features = {"inputs": tf.constant(INPUTS), "targets": tf.constant(TARGETS)}
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


@settings(max_examples=2, **RULES)
@given(CONFIGURATIONS)
def test_all_ways_to_compute_a_configuration_agree(configuration: dict[str, Any]) -> None:
    check(configuration)


@pytest.mark.slow
@settings(max_examples=60, **RULES)
@given(CONFIGURATIONS)
def test_all_ways_to_compute_many_configurations_agree(configuration: dict[str, Any]) -> None:
    check(configuration)


@pytest.mark.slow
@settings(max_examples=8, **RULES)
@given(CONFIGURATIONS)
def test_exported_configurations_agree(configuration: dict[str, Any]) -> None:
    check_exported(configuration)


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
