"""Halted positions that are not computed: the same outputs, ponder times and gradients as where all
are.
"""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests.close import assert_close
from ut_tf.errors import UserError
from ut_tf.layers.attention_weights import padding_bias
from ut_tf.layers.block import BlockContext
from ut_tf.models.universal_transformer.compact_loop import can_skip_halted
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig as Config
from ut_tf.models.universal_transformer.parts import make_recurrence

SMALL = {
    "hidden_size": 8,
    "filter_size": 16,
    "num_heads": 2,
    "num_steps": 3,
    "act_max_steps": 5,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}


def test_a_sequence_of_padding_alone() -> None:
    recurrence = make_recurrence(Config(**SMALL, halting="basic", halting_compute="compact"))
    output, details = recurrence(
        tf.ones([2, 3, 8]),
        tf.zeros([2, 3]),
        None,
        BlockContext(bias=padding_bias(tf.zeros([2, 3]))),
    )
    assert float(tf.reduce_max(tf.abs(output))) == 0.0
    assert float(tf.reduce_max(details.ponder_times)) == 0.0


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_batch_without_examples(norm: str) -> None:
    recurrence = make_recurrence(Config(**SMALL, halting="basic", norm=norm))
    context = BlockContext(bias=padding_bias(tf.zeros([0, 3])))
    output, _ = recurrence(tf.ones([0, 3, 8]), tf.ones([0, 3]), None, context)
    assert output.shape == (0, 3, 8)


@pytest.mark.parametrize(
    "changes",
    [
        {"halted_states": "transform"},
        {"halting": "global"},
        {"halting": "pondernet"},
        {"transition": "sepconv"},
        {"recurrence_layers": 2},
        {"position": "tensor2tensor", "position_shift": "step"},
    ],
)
def test_what_reads_halted_positions_computes_all(changes: dict[str, Any]) -> None:
    config = {**SMALL, "halting": "basic", **changes}
    recurrence = make_recurrence(Config(**config))
    assert not can_skip_halted(recurrence.recurrent_step, recurrence.halting_unit)
    with pytest.raises(UserError, match="halting_compute=compact needs"):
        make_recurrence(Config(**config, halting_compute="compact"))


def test_xla_computes_all_positions() -> None:
    recurrence = make_recurrence(Config(**SMALL, halting="basic"))
    states, mask = tf.random.normal([2, 3, 8], seed=1), tf.ones([2, 3])
    context = BlockContext(bias=padding_bias(mask))
    run = tf.function(lambda: recurrence(states, mask, None, context)[0], autograph=False)
    compiled = tf.function(run.python_function, autograph=False, jit_compile=True)
    assert_close(compiled(), run(), 1e-5)
