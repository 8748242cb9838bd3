"""The Transformer's named sets: the usual three sizes, and those that recipes of a Universal
Transformer are compared with.

How it is used::

    ut-trainer --problem=translate_ende_wmt14 --hparams_set=transformer_base

How it works: sizes are d / filter / heads and layers on either side; equations, positions and
normalisation are those of "Attention Is All You Need" (arXiv 1706.03762), sizes and dropout
tensor2tensor's. Later versions of tensor2tensor's sets normalise before each sublayer:
``--hparams=norm=pre``.
"""

from __future__ import annotations

import dataclasses

from ut_tf.config.hparams import HParams
from ut_tf.hparams.universal_transformer import ut_algorithmic, ut_babi


def transformer_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=transformer_base``

    512 / 2048 / 8, 6 layers, dropout 0.1.
    """
    return HParams(model="transformer").change(
        hidden_size=512, filter_size=2048, num_heads=8, num_layers=6
    )


def transformer_big() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=transformer_big``

    1024 / 4096 / 16, 6 layers, dropout 0.3.
    """
    return transformer_base().change(hidden_size=1024, filter_size=4096, num_heads=16, dropout=0.3)


def transformer_tiny() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=transformer_tiny``

    128 / 512 / 4, 2 layers, dropout 0.1.
    """
    return transformer_base().change(hidden_size=128, filter_size=512, num_heads=4, num_layers=2)


def transformer_babi() -> HParams:
    """``ut-trainer --problem=babi_qa_task1_10k --hparams_set=transformer_babi``

    ut_babi's recipe for 64 / 256 / 4, 4 layers: about as many parameters as its one block of twice
    the width.
    """
    return dataclasses.replace(ut_babi(), model="transformer").change(
        hidden_size=64, filter_size=256, num_layers=4
    )


def transformer_algorithmic() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=transformer_algorithmic``

    ut_algorithmic's recipe for 88 / 388 / 4, 2 layers on either side: about as many parameters as
    its two blocks, and as many layers as it has steps. (With 64 / 256 and 4 layers copying was not
    learned in as many updates.) For reversal as in ut_algorithmic_reverse:
    ``--hparams=target_position=backward,input_start_symbol=true``.
    """
    return dataclasses.replace(ut_algorithmic(), model="transformer").change(
        hidden_size=88, filter_size=388, num_layers=2
    )
