"""What may stand around a recurrence: untied layers, a recurrent layer; and that together they are
what they are one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.layers.block import BlockContext
from ut_tf.layers.contracts import StackInputs
from ut_tf.layers.coordinates import paper_sinusoid
from ut_tf.layers.recurrent_layer import RecurrentLayer
from ut_tf.models.transformer.config import TransformerConfig
from ut_tf.models.transformer.model import Transformer
from ut_tf.models.universal_transformer.conditional import ConditionalUniversalTransformer
from ut_tf.models.universal_transformer.config import (
    ConditionalUniversalTransformerConfig,
    UniversalTransformerConfig,
)
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.models.universal_transformer.parts import make_stack
from ut_tf.problem_spec import ProblemSpec

SMALL: dict[str, Any] = {
    "hidden_size": 8,
    "filter_size": 16,
    "num_heads": 2,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}
SEQUENCES = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
RANDOM = np.random.default_rng(0)
FEATURES = {
    name: RANDOM.integers(2, 12, shape).astype(np.int32)
    for name, shape in (("inputs", (2, 4)), ("targets", (2, 3)))
}


@pytest.mark.parametrize(
    "change",
    [
        {"recurrence_layers": 3},
        {"mix_layers_before": 2},
        {"mix_layers_before": 1, "mix_layers_after": 1, "norm": "pre"},
    ],
    ids=str,
)
def test_one_step_with_further_layers_is_a_transformer(change: dict[str, Any]) -> None:
    network = UniversalTransformerConfig(
        **SMALL, **change, num_steps=1, step_encoding="none", position_every_step=False
    )
    mixed = UniversalTransformer(network, SEQUENCES)
    layers = Transformer(TransformerConfig(**SMALL, num_layers=3, norm=network.norm), SEQUENCES)
    layers.set_weights(mixed.get_weights())
    assert_close(mixed(FEATURES), layers(FEATURES), 1e-5)


def test_each_part_adds_the_positions_and_only_the_last_one_has_a_norm() -> None:
    network = UniversalTransformerConfig(
        **SMALL, mix_layers_before=1, mix_layers_after=1, norm="pre", num_steps=2
    )
    stack = make_stack(network)
    stack.build((None, None, 8))
    inputs, mask = tf.constant(RANDOM.normal(size=(2, 4, 8)), tf.float32), tf.ones([2, 4])
    signal = paper_sinusoid(tf.constant([[1.0, 2.0, 3.0, 4.0]]), 8)
    given = StackInputs(mask, signal, BlockContext())
    state = inputs
    for part in (stack.before, stack.recurrence, stack.after):
        state = part(state, given=given)[0]
    output, details = stack(inputs, given=given.replace(return_attention=True))
    assert_close(output, state, 1e-6)
    assert [part.final_norm is None for part in (stack.before, stack.recurrence, stack.after)] == [
        True,
        True,
        False,
    ]
    assert details.attention_weights.shape == (4, 2, 2, 4, 4)
    assert float(details.ponder_times[0, 0]) == 2.0


def test_a_recurrent_layer_is_one_more_sublayer_and_forward_where_causal() -> None:
    x = tf.constant(RANDOM.normal(size=(2, 5, 8)), tf.float32)
    layer = RecurrentLayer(8, "gru", causal=True, norm="pre")
    assert_close(layer(x), x + layer.rnn(layer.norm(x)), 1e-6)
    assert_close(layer(x[:, :3]), layer(x)[:, :3], 1e-6)
    both = RecurrentLayer(8, "gru")
    assert np.abs(both(x[:, :3]) - both(x)[:, :3]).max() > 1e-3


def test_a_recurrent_layer_s_kernels_begin_as_kernel_init_says() -> None:
    """Of 8 inputs and 24 outputs: uniform up to (6 / 32)^½, or with variance 1/8 up to (3
    / 8)^½.
    """
    for name, low, high in (("glorot", 0.36, 0.434), ("unit_scaling", 0.5, 0.613)):
        layer = RecurrentLayer(8, "gru", causal=True, kernel_init=name)
        layer.build((None, None, 8))
        assert low < np.abs(layer.rnn.cell.kernel).max() < high


def test_a_conditional_model_has_a_transition_for_each_step_and_one_attention() -> None:
    network = ConditionalUniversalTransformerConfig(**SMALL, num_steps=3)
    shared, own = (
        UniversalTransformer(network, SEQUENCES),
        ConditionalUniversalTransformer(network, SEQUENCES),
    )
    transition = 2 * 8 * 16 + 8 + 16
    assert own.count_params() - shared.count_params() == 2 * 2 * transition
    for theirs, ours in ((shared.encoder, own.encoder), (shared.decoder, own.decoder)):
        for name in (
            "self_attention",
            "memory_attention",
            "self_attention_norm",
            "memory_attention_norm",
            "transition_norm",
        ):
            if hasattr(theirs.block, name) and getattr(theirs.block, name) is not None:
                getattr(ours.block, name).set_weights(getattr(theirs.block, name).get_weights())
        for part in ours.block.transition.transitions:
            part.set_weights(theirs.block.transition.get_weights())
    own.target_embedding.set_weights(shared.target_embedding.get_weights())
    assert_close(own(FEATURES), shared(FEATURES), 1e-5)
    own.encoder.block.transition.transition_2.outer.bias.assign(tf.range(8.0))
    assert np.abs(own(FEATURES) - shared(FEATURES)).max() > 1e-4


@pytest.mark.parametrize(
    ("model", "text", "expected"),
    [
        ("universal_transformer", "recurrence=dwa,eval_num_steps=9", "recurrence=dwa with its"),
        ("universal_transformer", "recurrence=dwa,steps_per_position=0.5", "makes depth depend on"),
        ("conditional_universal_transformer", "recurrence=gru", "takes the transition's place"),
        ("conditional_universal_transformer", "eval_num_steps=9", "a transition for each step"),
    ],
)
def test_what_does_not_go_together_is_refused(model: str, text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        HParams(model=model).override(text).resolve()


def test_models_refuse_it_too() -> None:
    with pytest.raises(UserError, match="a transition for each step cannot do"):
        ConditionalUniversalTransformerConfig(**SMALL, steps_per_position=0.5)
    with pytest.raises(UserError, match="recurrence=lstm takes the transition's place"):
        ConditionalUniversalTransformerConfig(**SMALL, recurrence="lstm")
    plain = UniversalTransformerConfig(**SMALL)
    with pytest.raises(UserError, match="configured by a ConditionalUniversalTransformerConfig"):
        ConditionalUniversalTransformer(plain, SEQUENCES)
    with pytest.raises(UserError, match="configured by a TransformerConfig"):
        Transformer(plain, SEQUENCES)  # type: ignore[arg-type]
