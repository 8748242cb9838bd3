"""The LSTM baselines' named sets: tensor2tensor's sizes, and recipes for a CPU.

How it is used::

    ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=lstm_attention_tiny

How it works: the sets under tensor2tensor's names (lstm_seq2seq, lstm_luong_attention,
lstm_bahdanau_attention) have its sizes and its optimizer: 2 layers of 128, inputs read backward,
1024 tokens per replica, Adam at a constant 2e-4. Their attention is the papers', not its
AttentionWrapper: ``ut_tf/models/lstm/layers.py`` says which state asks and where the context goes.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams


def lstm_seq2seq() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=lstm_seq2seq``

    d 128, 2 layers, inputs read backward, no attention, dropout 0.2.
    """
    return HParams(model="lstm").change(
        hidden_size=128,
        num_layers=2,
        lstm_direction="backward",
        shared_embedding=False,
        kernel_init="unit_scaling",
        dropout=0.2,
        batch_size=1024,
        schedule="constant",
        learning_rate=2e-4,
        warmup_steps=100,
        adam_beta1=0.85,
        adam_epsilon=1e-6,
        clip_norm=2.0,
    )


def lstm_luong_attention() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=lstm_luong_attention``

    lstm_seq2seq with Luong's attention.
    """
    return lstm_seq2seq().change(lstm_attention="luong")


def lstm_bahdanau_attention() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=lstm_bahdanau_attention``

    lstm_seq2seq with Bahdanau's attention.
    """
    return lstm_seq2seq().change(lstm_attention="bahdanau")


def lstm_tiny() -> HParams:
    """``ut-trainer --problem=babi_qa_task1_10k --hparams_set=lstm_tiny``

    For bAbI on a CPU: d 112, 2 layers that read forward, the question last; batches of 64 stories.
      About as many parameters as ut_babi.
    """
    return HParams(model="lstm").change(
        hidden_size=112,
        num_layers=2,
        word_mask_stddev=0.5,
        **_ADAM_COSINE,
        batch_size=64,
        batch_unit="examples",
        length_bucket_step=1.5,
        weight_decay=0.01,
        train_steps=2000,
        eval_frequency=200,
    )


def lstm_attention_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=lstm_attention_tiny``

    For copy and reverse up to length 40 on a CPU: d 144, one layer that reads both ways, Bahdanau's
    attention, no dropout. About as many parameters as ut_algorithmic; so has d 120 with 2 layers
    and no attention.
    """
    return HParams(model="lstm").change(
        hidden_size=144,
        num_layers=1,
        lstm_direction="both",
        lstm_attention="bahdanau",
        shared_embedding=False,
        dropout=0.0,
        **_ADAM_COSINE,
        batch_size=1312,
        min_length_bucket=11,
        length_bucket_step=1.5,
        train_steps=2000,
        eval_frequency=250,
    )


_ADAM_COSINE = {
    "learning_rate": 0.003,
    "schedule": "cosine",
    "warmup_steps": 100,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "clip_norm": 1.0,
    "label_smoothing": 0.0,
}
