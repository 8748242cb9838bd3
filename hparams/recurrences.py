"""Variants of the recurrence: the paper's base size, and recipes for a CPU, reversal of digits in
ut_algorithmic_reverse's network.

How it is used::

    ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_highway_tiny

How it works: the recipes are 128 / 512 / 4 with four steps, no dropout, batches of 1312 tokens, a
cosine to zero over 1000 updates. docs/models.md has the equations. The base size of the other
variants has tensor2tensor's names, in tensor2tensor.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ut_tf.config.hparams import HParams
from ut_tf.hparams.universal_transformer import ut_algorithmic_reverse, ut_base


def ut_highway_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_highway_tiny``

    The highway recurrence: a gate decides between the state and the block's output.
    """
    return _tiny(recurrence="highway")


def ut_skip_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_skip_tiny``

    The skip recurrence: a gate decides between the embedded input and the block's output.
    """
    return _tiny(recurrence="skip")


def ut_dwa_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_dwa_tiny``

    Depth-wise attention: each step reads a weighted sum of the states of all steps before it.
    """
    return _tiny(recurrence="dwa")


def ut_gru_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_gru_tiny``

    States combined by a GRU, in the transition's place; without step embedding.
    """
    return _tiny(recurrence="gru", step_encoding="none")


def ut_lstm_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_lstm_tiny``

    States combined by an LSTM, in the transition's place; without step embedding.
    """
    return _tiny(recurrence="lstm", step_encoding="none")


def ut_conditional_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_conditional_tiny``

    One attention for all steps, and a transition for each.
    """
    return dataclasses.replace(_tiny(), model="conditional_universal_transformer")


def ut_hybrid_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_hybrid_tiny``

    A GRU over the positions before two recurrent steps.
    """
    return _tiny(recurrent_layer="gru", num_steps=2)


def ut_conditional_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=ut_conditional_base``

    ut_base with a transition for each of its 6 steps.
    """
    return dataclasses.replace(ut_base(), model="conditional_universal_transformer")


def ut_hybrid_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=ut_hybrid_base``

    ut_base with a GRU over the positions before its steps.
    """
    return ut_base().change(recurrent_layer="gru")


def _tiny(**changes: Any) -> HParams:
    training = {"train_steps": 1000, "eval_frequency": 125}
    return ut_algorithmic_reverse().change(**{"num_steps": 4, **training, **changes})
