"""Recipes for learning to execute on a CPU.

How it is used::

    ut-trainer --problem=lte_addition --hparams_set=ut_lte

How it works: cosine to zero over train_steps: give ``--hparams=train_steps=...`` to train longer,
not ``--train_steps`` alone. Examples are new in every epoch, so nothing is dropped out. Matrix
products are in bfloat16, except for ``ut_lte_double`` and the LSTMs.
"""

from __future__ import annotations

from typing import Any

from ut_tf.config.hparams import HParams
from ut_tf.hparams.tasks.recipes import COSINE, halting


def ut_lte() -> HParams:
    """``ut-trainer --problem=lte_addition --hparams_set=ut_lte``

    128 / 512 / 4, 4 steps, for programs: separable convolutions as transition, and small batches,
    of which twice as many teach more.
    """
    return HParams().change(hidden_size=128, filter_size=512, num_steps=4, **_PROGRAMS)


def ut_lte_digits() -> HParams:
    """``ut-trainer --problem=lte_control --problem_args=little_endian=true
    --hparams_set=ut_lte_digits``

    ut_lte with more about numerals than the paper's network has: a digit's position is its place in
    its numeral, and attention has a bias by distance for the order of everything else. Trained with
    Muon; weights are averaged.
    """
    return ut_lte().change(
        position_digits=10,
        relative_bias=32,
        optimizer="muon",
        learning_rate=0.002,
        average_decay=0.998,
    )


def ut_act_lte() -> HParams:
    """``ut-trainer --problem=lte_addition --hparams_set=ut_act_lte``

    ut_lte with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return halting(ut_lte())


def transformer_lte() -> HParams:
    """``ut-trainer --problem=lte_addition --hparams_set=transformer_lte``

    64 / 256 / 4, 4 layers: about as many parameters as ut_lte.
    """
    return HParams("transformer").change(hidden_size=64, filter_size=256, num_layers=4, **_PROGRAMS)


def lstm_lte() -> HParams:
    """``ut-trainer --problem=lte_addition --hparams_set=lstm_lte``

    d 144, one layer that reads both ways, with Bahdanau's attention: about as many parameters as
    ut_lte.
    """
    return HParams("lstm").change(
        hidden_size=144,
        num_layers=1,
        lstm_direction="both",
        lstm_attention="bahdanau",
        **{**_TRAINING, "learning_rate": 0.003, "adam_beta2": 0.999, "adam_epsilon": 1e-8},
    )


def ut_lte_memory() -> HParams:
    """``ut-trainer --problem=lte_copy --hparams_set=ut_lte_memory``

    ut_lte with 2 steps and the fully connected transition, for digit strings to be copied.
    """
    return ut_lte().change(num_steps=2, transition="fc", **_STRINGS)


def transformer_lte_memory() -> HParams:
    """``ut-trainer --problem=lte_copy --hparams_set=transformer_lte_memory``

    88 / 388 / 4, 2 layers on either side, trained as ut_lte_memory: about as many parameters.
    """
    return HParams("transformer").change(
        hidden_size=88,
        filter_size=388,
        num_layers=2,
        **{**_PROGRAMS, **_STRINGS, "transition": "fc"},
    )


def lstm_lte_memory() -> HParams:
    """``ut-trainer --problem=lte_copy --hparams_set=lstm_lte_memory``

    lstm_lte, with the batches and updates of ut_lte_memory.
    """
    return lstm_lte().change(**_STRINGS)


def ut_lte_double() -> HParams:
    """``ut-trainer --problem=lte_double --hparams_set=ut_lte_double``

    ut_lte_memory for doubling, trained longer, with 3 steps and in float32 alone.
    """
    return ut_lte_memory().change(
        num_steps=3, dtype_policy="float32", train_steps=6000, eval_frequency=500
    )


def ut_lte_reverse() -> HParams:
    """``ut-trainer --problem=lte_reverse --hparams_set=ut_lte_reverse``

    ut_lte_memory for reversal: the encoder counts its positions back from the last symbol.
    """
    return ut_lte_memory().change(position_from="end")


_TRAINING: dict[str, Any] = {
    **COSINE,
    "batch_size": 1024,
    "train_steps": 14_000,
    "eval_frequency": 1000,
    "shared_embedding": False,
    "dropout": 0.0,
    "min_length_bucket": 11,
    "length_bucket_step": 1.5,
    "learning_rate": 0.001,
    "warmup_steps": 200,
    "label_smoothing": 0.0,
}
_PROGRAMS: dict[str, Any] = {
    **_TRAINING,
    "norm": "pre",
    "num_heads": 4,
    "transition": "sepconv",
    "query_key_init": "equal",
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "dtype_policy": "mixed_bfloat16",
}
_STRINGS: dict[str, Any] = {"batch_size": 2048, "train_steps": 2000, "eval_frequency": 250}
