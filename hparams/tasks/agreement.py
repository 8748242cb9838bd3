"""Recipes for the agreement of subject and verb on a CPU: a Universal Transformer, with and without
dynamic halting, and a Transformer.

How it is used::

    ut-trainer --problem=sva_language_modeling --hparams_set=ut_agreement

How it works: all are pre-norm, with batches of 2048 tokens and a cosine to zero over train_steps:
give ``--hparams=train_steps=...`` to train longer, not ``--train_steps`` alone. Their matrix
products are in bfloat16. Sizes are chosen for equal numbers of parameters.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams
from ut_tf.hparams.tasks.recipes import PRE_NORM, halting


def ut_agreement() -> HParams:
    """``ut-trainer --problem=sva_language_modeling --hparams_set=ut_agreement``

    160 / 640 / 4, 4 steps.
    """
    return HParams().change(hidden_size=160, filter_size=640, num_heads=4, num_steps=4, **_TRAINING)


def ut_act_agreement() -> HParams:
    """``ut-trainer --problem=sva_language_modeling --hparams_set=ut_act_agreement``

    ut_agreement with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return halting(ut_agreement())


def transformer_agreement() -> HParams:
    """``ut-trainer --problem=sva_language_modeling --hparams_set=transformer_agreement``

    128 / 336 / 4, 4 layers: as many parameters as ut_agreement, in narrower layers of their own.
    """
    return HParams(model="transformer").change(
        hidden_size=128, filter_size=336, num_heads=4, num_layers=4, **_TRAINING
    )


_TRAINING = {
    **PRE_NORM,
    "dropout": 0.2,
    "attention_dropout": 0.1,
    "relu_dropout": 0.1,
    "batch_size": 2048,
    "max_length": 128,
    "length_bucket_step": 1.3,
    "learning_rate": 0.001,
    "warmup_steps": 300,
    "label_smoothing": 0.0,
    "dtype_policy": "mixed_bfloat16",
    "train_steps": 2400,
    "eval_frequency": 200,
}
