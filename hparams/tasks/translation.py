"""Recipes for translation: the paper's for WMT14, and two kinds for a CPU, each for a Universal
Transformer and a Transformer with as many parameters.

How it is used::

    ut-trainer --problem=translate_ende_multi30k --hparams_set=ut_translate_small

How it works: the small ones are pre-norm, with batches of 2048 tokens and a cosine to zero over
train_steps: give ``--hparams=train_steps=...`` to train longer, not ``--train_steps`` alone. Their
matrix products are in bfloat16.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams
from ut_tf.hparams.sizes import ut_base
from ut_tf.hparams.tasks.recipes import PRE_NORM


def ut_wmt14() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=ut_wmt14``

    ut_base with 37,000 subwords and, on eight GPUs, 25,000 source and 25,000 target tokens in a
    batch.
    """
    return ut_base().change(vocab_size=37_000, batch_size=3125)


def ut_translate_small() -> HParams:
    """``ut-trainer --problem=translate_ende_multi30k --hparams_set=ut_translate_small``

    256 / 1024 / 4, 3 steps, 5,000 subwords: 3.1 million parameters.
    """
    return HParams().change(
        hidden_size=256, filter_size=1024, num_heads=4, num_steps=3, **_TRAINING
    )


def transformer_translate_small() -> HParams:
    """``ut-trainer --problem=translate_ende_multi30k --hparams_set=transformer_translate_small``

    128 / 576 / 4, 5 layers, 5,000 subwords: 3.1 million parameters in narrower layers of their own.
    """
    return HParams(model="transformer").change(
        hidden_size=128, filter_size=576, num_heads=4, num_layers=5, **_TRAINING
    )


def ut_multi30k() -> HParams:
    """``ut-trainer --problem=translate_ende_multi30k --hparams_set=ut_multi30k``

    ut_translate_small for tens of thousands of pairs: more dropout, a higher rate, averaged
    weights, twice the updates.
    """
    return ut_translate_small().change(learning_rate=0.0035, **_FEW_PAIRS)


def transformer_multi30k() -> HParams:
    """``ut-trainer --problem=translate_ende_multi30k --hparams_set=transformer_multi30k``

    transformer_translate_small, trained as ut_multi30k, with the rate that suits it.
    """
    return transformer_translate_small().change(learning_rate=0.0024, **_FEW_PAIRS)


_TRAINING = {
    **PRE_NORM,
    "vocab_size": 5000,
    "dropout": 0.2,
    "attention_dropout": 0.1,
    "relu_dropout": 0.1,
    "batch_size": 2048,
    "max_length": 128,
    "learning_rate": 0.0012,
    "warmup_steps": 400,
    "dtype_policy": "mixed_bfloat16",
    "train_steps": 4000,
    "eval_frequency": 250,
    "keep_checkpoint_max": 8,
}
_FEW_PAIRS = {
    "dropout": 0.3,
    "average_decay": 0.998,
    "train_steps": 8000,
    "eval_frequency": 500,
}
