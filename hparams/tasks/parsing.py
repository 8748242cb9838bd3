"""Recipes for constituency parsing of a few thousand trees on a CPU: a Universal Transformer, and a
Transformer with as many parameters.

How it is used::

    ut-trainer --problem=parse_ptb --hparams_set=ut_parsing
    ut-trainer --problem=parse_ptb --problem_args=leaves=XX --hparams_set=ut_parsing_leaves

How it works: both are pre-norm, with attention that starts out by likeness (the words of a tree are
those of its sentence), dropout also of words, small batches of 1024 tokens and a cosine to zero
over train_steps: give ``--hparams=train_steps=...`` to train longer, not ``--train_steps`` alone.
Their matrix products are in bfloat16.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams
from ut_tf.hparams.tasks.recipes import PRE_NORM


def ut_parsing() -> HParams:
    """``ut-trainer --problem=parse_ptb --hparams_set=ut_parsing``

    192 / 768 / 4, 4 steps.
    """
    return HParams().change(hidden_size=192, filter_size=768, num_heads=4, num_steps=4, **_TRAINING)


def transformer_parsing() -> HParams:
    """``ut-trainer --problem=parse_ptb --hparams_set=transformer_parsing``

    128 / 320 / 4, 4 layers on either side: as many parameters as ut_parsing, in narrower layers of
    their own.
    """
    return HParams(model="transformer").change(
        hidden_size=128, filter_size=320, num_heads=4, num_layers=4, **_TRAINING
    )


def ut_parsing_leaves() -> HParams:
    """``ut-trainer --problem=wsj_parsing --hparams_set=ut_parsing_leaves``

    ut_parsing for trees with XX for each word (``parse_ptb`` has them with ``leaves=XX``): what the
    decoder writes has the position of the word that it comes to next, and its attention a bias per
    distance, which says in which order brackets were written.
    """
    return ut_parsing().change(**_LEAVES)


def transformer_parsing_leaves() -> HParams:
    """``ut-trainer --problem=wsj_parsing --hparams_set=transformer_parsing_leaves``

    transformer_parsing for such trees, in the same way.
    """
    return transformer_parsing().change(**_LEAVES)


_LEAVES = {
    "target_position": "leaves",
    "relative_bias": 32,
    "train_steps": 4000,
    "eval_frequency": 500,
}
_TRAINING = {
    **PRE_NORM,
    "query_key_init": "equal",
    "dropout": 0.2,
    "attention_dropout": 0.1,
    "relu_dropout": 0.1,
    "word_dropout": 0.1,
    "batch_size": 1024,
    "max_length": 200,
    "length_bucket_step": 1.2,
    "learning_rate": 0.001,
    "warmup_steps": 400,
    "label_smoothing": 0.1,
    "dtype_policy": "mixed_bfloat16",
    "train_steps": 6000,
    "eval_frequency": 1000,
}
