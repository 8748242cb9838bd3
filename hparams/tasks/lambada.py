"""Recipes for LAMBADA on a CPU: as a language model, and for reading; a Universal Transformer, one
that halts, a Transformer and an LSTM.

How it is used::

    ut-trainer --problem=lambada_lm --hparams_set=ut_lambada
    ut-trainer --problem=lambada_rc --hparams_set=ut_lambada_rc

How it works: pre-norm, a cosine to zero over train_steps (give ``--hparams=train_steps=...`` to
train longer, not ``--train_steps`` alone), matrix products in bfloat16. A softmax over 60,000 words
takes most of a language model's time, so its states are narrow and its transition is wide; for
reading, separable convolutions take its place. The Transformers have about as many parameters in
four layers, the LSTMs in two.
"""

from __future__ import annotations

from typing import Any

from ut_tf.config.hparams import HParams
from ut_tf.hparams.tasks.recipes import NARROW, halting


def ut_lambada() -> HParams:
    """``ut-trainer --problem=lambada_lm --hparams_set=ut_lambada``

    128 / 2048 / 4, 4 steps: 8.3 million parameters with 60,000 words, of which 0.6 million are not
    embeddings.
    """
    return HParams().change(num_steps=4, filter_size=2048, **_LANGUAGE_MODEL)


def ut_act_lambada() -> HParams:
    """``ut-trainer --problem=lambada_lm --hparams_set=ut_act_lambada``

    ut_lambada with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return halting(ut_lambada())


def transformer_lambada() -> HParams:
    """``ut-trainer --problem=lambada_lm --hparams_set=transformer_lambada``

    128 / 320 / 4, 4 layers: as many parameters as ut_lambada.
    """
    return HParams(model="transformer").change(num_layers=4, filter_size=320, **_LANGUAGE_MODEL)


def lstm_lambada() -> HParams:
    """``ut-trainer --problem=lambada_lm --hparams_set=lstm_lambada``

    d 134, 2 layers, in float32: as many parameters as ut_lambada.
    """
    return HParams("lstm").change(**_without_attention(_LANGUAGE_MODEL))


def ut_lambada_rc() -> HParams:
    """``ut-trainer --problem=lambada_rc --hparams_set=ut_lambada_rc``

    128 / 512 / 4, 4 steps, separable convolutions as transition, and a learned bias per relative
    position. With the fully connected transition it finds half as many words.
    """
    return HParams().change(num_steps=4, filter_size=512, **_READING)


def ut_act_lambada_rc() -> HParams:
    """``ut-trainer --problem=lambada_rc --hparams_set=ut_act_lambada_rc``

    ut_lambada_rc with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return halting(ut_lambada_rc())


def transformer_lambada_rc() -> HParams:
    """``ut-trainer --problem=lambada_rc --hparams_set=transformer_lambada_rc``

    128 / 320 / 4, 4 layers with separable convolutions: about as many parameters as ut_lambada_rc.
    """
    return HParams(model="transformer").change(num_layers=4, filter_size=320, **_READING)


def lstm_lambada_rc() -> HParams:
    """``ut-trainer --problem=lambada_rc --hparams_set=lstm_lambada_rc``

    d 134, 2 layers that read both ways, in float32: about as many parameters as ut_lambada_rc.
    """
    return HParams("lstm").change(**_without_attention(_READING), lstm_direction="both")


def _without_attention(values: dict[str, Any]) -> dict[str, Any]:
    """The values that an LSTM has, too, for two layers in float32."""
    left_out = {
        "norm",
        "num_heads",
        "transition",
        "attention_dropout",
        "relu_dropout",
        "relative_bias",
    }
    kept = {name: value for name, value in values.items() if name not in left_out}
    return {**kept, "hidden_size": 134, "num_layers": 2, "dtype_policy": "float32"}


_SHARED: dict[str, Any] = {
    **NARROW,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "adam_epsilon": 1e-9,
    "dtype_policy": "mixed_bfloat16",
}
_LANGUAGE_MODEL: dict[str, Any] = {
    **_SHARED,
    # Less than one pass over the novels is made: nothing is learnt by heart.
    "dropout": 0.0,
    "batch_size": 1024,
    "max_length": 128,
    "learning_rate": 0.002,
    "warmup_steps": 200,
    "train_steps": 3600,
    "eval_frequency": 600,
}
_READING: dict[str, Any] = {
    **_SHARED,
    "transition": "sepconv",
    "dropout": 0.2,
    "attention_dropout": 0.1,
    "relative_bias": 32,
    "batch_size": 32,
    "batch_unit": "examples",
    "learning_rate": 0.001,
    "warmup_steps": 300,
    # An epoch of 200,000 passages; in a second one they are learned by heart.
    "train_steps": 6000,
    "eval_frequency": 600,
    "average_decay": 0.998,
}
