"""Recipes for the user's own texts on a CPU: a Universal Transformer, with and without dynamic
halting, and a Transformer.

How it is used::

    ut-trainer --problem=classify_files --hparams_set=ut_classify --source_files=reviews.tsv
    ut-trainer --problem=lm_files --hparams_set=ut_lm --source_files=book.txt

How it works: all are pre-norm, with batches of 2048 tokens and a cosine to zero over train_steps:
give ``--hparams=train_steps=...`` to train longer, not ``--train_steps`` alone. A classifier reads
the mean of the states. Own texts are few: dropout is high, words are dropped too.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams
from ut_tf.hparams.tasks.recipes import NARROW, halting


def ut_classify() -> HParams:
    """``ut-trainer --problem=classify_files --hparams_set=ut_classify``

    128 / 512 / 4, 4 steps.
    """
    return HParams().change(filter_size=512, num_steps=4, **_CLASSIFY)


def ut_act_classify() -> HParams:
    """``ut-trainer --problem=classify_files --hparams_set=ut_act_classify``

    ut_classify with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return halting(ut_classify())


def transformer_classify() -> HParams:
    """``ut-trainer --problem=classify_files --hparams_set=transformer_classify``

    128 / 128 / 4, 2 layers: as many parameters as ut_classify.
    """
    return HParams(model="transformer").change(num_layers=2, filter_size=128, **_CLASSIFY)


def ut_lm() -> HParams:
    """``ut-trainer --problem=lm_files --hparams_set=ut_lm``

    128 / 1024 / 4, 4 steps.
    """
    return HParams().change(filter_size=1024, num_steps=4, **_LANGUAGE_MODEL)


def ut_act_lm() -> HParams:
    """``ut-trainer --problem=lm_files --hparams_set=ut_act_lm``

    ut_lm with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return halting(ut_lm())


def transformer_lm() -> HParams:
    """``ut-trainer --problem=lm_files --hparams_set=transformer_lm``

    128 / 384 / 4, 2 layers: as many parameters as ut_lm.
    """
    return HParams(model="transformer").change(num_layers=2, filter_size=384, **_LANGUAGE_MODEL)


_SHARED = {
    **NARROW,
    "dropout": 0.2,
    "attention_dropout": 0.1,
    "relu_dropout": 0.1,
    "batch_size": 2048,
    "max_length": 512,
    "learning_rate": 0.001,
    "warmup_steps": 100,
    "train_steps": 1500,
    "eval_frequency": 100,
}
_CLASSIFY = {**_SHARED, "word_dropout": 0.1, "summary": "mean"}
_LANGUAGE_MODEL = _SHARED
