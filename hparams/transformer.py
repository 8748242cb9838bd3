"""The Transformer's named sets: the three sizes that a Universal Transformer is compared with.

How it is used::

    ut-trainer --problem=translate_ende_wmt14 --hparams_set=transformer_base

How it works: sizes are d / filter / heads and layers on either side; equations, positions and normalisation are those of "Attention Is All
You Need" (arXiv 1706.03762), sizes and dropout tensor2tensor's. Later versions of tensor2tensor's sets normalise before each sublayer:
``--hparams=norm=pre``.
"""

from __future__ import annotations

from ut_tf.config import HParams


def transformer_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=transformer_base``

    512 / 2048 / 8, 6 layers, dropout 0.1.
    """
    return HParams(model="transformer").change(hidden_size=512, filter_size=2048, num_heads=8, num_layers=6)


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
