"""Named sets of the convolutional models, ConvS2S and ByteNet: the papers' sizes, and recipes for a CPU.

How it is used::

    ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=convs2s_tiny

How it works: widths, depths, kernels and dilations are the papers'; ConvS2S was trained by Nesterov's momentum, which is Adam here.
"""

from __future__ import annotations

from ut_tf.config import HParams


def convs2s_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=convs2s_base``

    The paper's size for English to Romanian: 20 blocks of width 512 on either side, kernel 3, dropout 0.2.
    """
    return HParams(model="convs2s").change(hidden_size=512, num_layers=20, dropout=0.2, **_SMALL_EMBEDDINGS)


def convs2s_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=convs2s_tiny``

    For copy and reverse up to length 40 on a CPU: 4 blocks of width 128 on either side, kernel 3, no dropout.
    """
    return HParams(model="convs2s").change(
        hidden_size=128, num_layers=4, dropout=0.0, shared_embedding=False, **_SMALL_EMBEDDINGS, **_ALGORITHMIC_TRAINING
    )


def bytenet_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=bytenet_base``

    The paper's size for translation by characters: 30 blocks of width 1600 (d = 800) on either side, kernel 3, dilations up to 16.
    """
    return HParams(model="bytenet").change(hidden_size=1600, num_layers=30, schedule="constant", learning_rate=0.0003)


def bytenet_tiny() -> HParams:
    """``ut-trainer --problem=babi_qa_task1_10k --hparams_set=bytenet_tiny``

    For bAbI on a CPU: 5 blocks of width 128, kernel 3, dilations up to 16; batches of 64 stories.
    """
    return HParams(model="bytenet").change(
        hidden_size=128,
        num_layers=5,
        word_mask_stddev=0.5,
        **_ADAM_COSINE,
        batch_size=64,
        batch_unit="examples",
        length_bucket_step=1.5,
        weight_decay=0.01,
        train_steps=2000,
        eval_frequency=200,
    )


_SMALL_EMBEDDINGS = {"embedding_scale": "none", "embedding_stddev": 0.1}
_ADAM_COSINE = {
    "learning_rate": 0.001,
    "schedule": "cosine",
    "warmup_steps": 100,
    "adam_beta2": 0.98,
    "clip_norm": 1.0,
    "label_smoothing": 0.0,
}
_ALGORITHMIC_TRAINING = {
    **_ADAM_COSINE,
    "batch_size": 1312,
    "min_length_bucket": 11,
    "length_bucket_step": 1.5,
    "train_steps": 2000,
    "eval_frequency": 250,
}
