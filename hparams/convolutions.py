"""Named sets of the convolutional models, ConvS2S and ByteNet: the papers' sizes, and recipes for a
CPU.

How it is used::

    ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=convs2s_tiny

How it works: widths, depths, kernels and dilations of the base sets are the papers', and so is
ByteNet's Adam at 3e-4; ConvS2S was trained by Nesterov's momentum, in place of which is the usual
Adam with its inverse square root.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams


def convs2s_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=convs2s_base``

    The paper's size for English to Romanian: 20 blocks of width 512 on either side, kernel 3,
    dropout 0.2.
    """
    return HParams(model="convs2s").change(
        hidden_size=512, num_layers=20, dropout=0.2, label_smoothing=0.0, **_SMALL_EMBEDDINGS
    )


def convs2s_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=convs2s_tiny``

    For copy and reverse up to length 40 on a CPU: 4 blocks of width 128 on either side, kernel 3,
    no dropout.
    """
    return HParams(model="convs2s").change(
        hidden_size=128,
        num_layers=4,
        dropout=0.0,
        shared_embedding=False,
        **_SMALL_EMBEDDINGS,
        **_ALGORITHMIC_TRAINING,
    )


def bytenet_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=bytenet_base``

    The paper's size for translation by characters: 30 blocks of width 1600 (d = 800) on either
    side, kernel 3, dilations up to 16.
    """
    return HParams(model="bytenet").change(
        hidden_size=1600,
        num_layers=30,
        schedule="constant",
        learning_rate=0.0003,
        warmup_steps=0,
        label_smoothing=0.0,
    )


def bytenet_tiny() -> HParams:
    """``ut-trainer --problem=babi_qa_task1_10k --hparams_set=bytenet_tiny``

    For a bAbI task with short stories on a CPU: twice three blocks of width 128, kernel 5,
    dilations 1, 2 and 4, so that facts see the
    question and the question then sees them: 28 facts back. No dropout; batches of 64 stories.
    """
    return HParams(model="bytenet").change(
        hidden_size=128,
        num_layers=6,
        conv_kernel=5,
        max_dilation=4,
        dropout=0.0,
        word_mask_stddev=0.5,
        **_BABI_TRAINING,
    )


_SMALL_EMBEDDINGS = {"embedding_scale": "none", "embedding_stddev": 0.1}
_COSINE = {"schedule": "cosine", "warmup_steps": 100, "clip_norm": 1.0, "label_smoothing": 0.0}
_BABI_TRAINING = {
    **_COSINE,
    "learning_rate": 0.003,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "batch_size": 64,
    "batch_unit": "examples",
    "length_bucket_step": 1.5,
    "weight_decay": 0.01,
    "train_steps": 2000,
    "eval_frequency": 200,
}
_ALGORITHMIC_TRAINING = {
    **_COSINE,
    "learning_rate": 0.001,
    "adam_beta2": 0.98,
    "batch_size": 1312,
    "min_length_bucket": 11,
    "length_bucket_step": 1.5,
    "train_steps": 2000,
    "eval_frequency": 250,
}
