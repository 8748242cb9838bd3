"""The sizes of the papers, of every model: d / filter / heads and steps or layers.

Each set is a function that changes fields of ``HParams()``, whose defaults are the paper's network
and tensor2tensor's optimizer.

- Transformers: "Attention Is All You Need" (arXiv 1706.03762); with memory: arXiv 2006.11527.
- memn2n (arXiv 1503.08895): Adam with a cosine instead of SGD whose rate is halved.
- LSTMs: tensor2tensor's sizes and optimizer, with the papers' attention.
- convs2s (arXiv 1705.03122): Adam instead of Nesterov's momentum; bytenet (arXiv 1610.10099).
- Neural GPUs (arXiv 1511.08228): a curriculum over lengths and six relaxed sets of parameters.
"""

from __future__ import annotations

from typing import Any

from ut_tf.config.hparams import HParams


def ut_base() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_base``

    1024 / 4096 / 16, 6 steps, dropout 0.3: as many parameters in its one layer as six layers of
    half the width have.
    """
    return HParams().change(**_UT_BASE)


def ut_small() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_small``

    512 / 2048 / 8, 6 steps, dropout 0.1.
    """
    return HParams().change(hidden_size=512, filter_size=2048, num_heads=8, num_steps=6)


def ut_tiny() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_tiny``

    128 / 512 / 4, 8 steps, dropout 0.1.
    """
    return HParams().change(hidden_size=128, filter_size=512, num_heads=4, num_steps=8)


def ut_big() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_big``

    2048 / 8192 / 16, 6 steps, dropout 0.3.
    """
    return ut_base().change(hidden_size=2048, filter_size=8192)


def ut_teeny() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_teeny``

    128 / 128 / 2, 10 steps, dropout 0.1.
    """
    return HParams().change(hidden_size=128, filter_size=128, num_heads=2, num_steps=10)


def ut_tall() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_tall``

    ut_small with 16 steps.
    """
    return ut_small().change(num_steps=16)


def ut_act_base() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_act_base``

    ut_base with dynamic halting after at most 12 steps.
    """
    return ut_base().change(halting="basic", act_max_steps=12)


def ut_act_small() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_act_small``

    ut_small with dynamic halting after at most 12 steps.
    """
    return ut_small().change(halting="basic", act_max_steps=12)


def ut_act_tiny() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_act_tiny``

    ut_tiny with dynamic halting after at most 8 steps, the depth of ut_tiny.
    """
    return ut_tiny().change(halting="basic", act_max_steps=8)


def ut_conditional_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=ut_conditional_base``

    ut_base with a transition for each of its 6 steps.
    """
    return HParams("conditional_universal_transformer").change(**_UT_BASE)


def ut_hybrid_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=ut_hybrid_base``

    ut_base with a GRU over the positions before its steps.
    """
    return ut_base().change(recurrent_layer="gru")


def ut_pondernet_base() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_pondernet_base``

    ut_base with at most 12 steps, of which the prior expects 4.1.
    """
    return ut_base().change(halting="pondernet", act_max_steps=12, ponder_prior=0.2)


def transformer_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=transformer_base``

    512 / 2048 / 8, 6 layers, dropout 0.1.
    """
    return HParams("transformer").change(**_TRANSFORMER_BASE)


def transformer_big() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=transformer_big``

    1024 / 4096 / 16, 6 layers, dropout 0.3.
    """
    return transformer_base().change(
        hidden_size=1024, filter_size=4096, num_heads=16, **_LARGE_DROPOUT
    )


def transformer_tiny() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=transformer_tiny``

    128 / 512 / 4, 2 layers, dropout 0.1.
    """
    return transformer_base().change(hidden_size=128, filter_size=512, num_heads=4, num_layers=2)


def mem_transformer_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=mem_transformer_base``

    transformer_base with 10 memory vectors in front of the inputs.
    """
    return HParams("mem_transformer").change(**_TRANSFORMER_BASE, memory_size=10)


def mem_bottleneck_transformer_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=mem_bottleneck_transformer_base``

    transformer_base whose encoder's symbols see each other through 10 memory vectors.
    """
    return HParams("mem_bottleneck_transformer").change(**_TRANSFORMER_BASE, memory_size=10)


def memn2n() -> HParams:
    """``ut-trainer --problem=babi_sim_all_tasks --hparams_set=memn2n``

    d 50, 3 hops, 50 facts, adjacent tying: the paper's for all bAbI tasks jointly.
    """
    return HParams(model="memn2n").change(
        hidden_size=50,
        num_steps=3,
        memory_size=50,
        embedding_stddev=0.1,
        learning_rate=0.005,
        schedule="cosine",
        warmup_steps=100,
        adam_beta2=0.999,
        adam_epsilon=1e-8,
        clip_norm=40.0,
        batch_size=32,
        batch_unit="examples",
        length_bucket_step=1.5,
        label_smoothing=0.0,
        train_steps=30_000,
        eval_frequency=1000,
    )


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


def convs2s_base() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=convs2s_base``

    The paper's size for English to Romanian: 20 blocks of width 512 on either side, kernel 3,
    dropout 0.2.
    """
    return HParams(model="convs2s").change(
        hidden_size=512,
        num_layers=20,
        dropout=0.2,
        label_smoothing=0.0,
        embedding_scale="none",
        embedding_stddev=0.1,
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


def neural_gpu() -> HParams:
    """``ut-trainer --problem=algorithmic_addition_decimal40 --hparams_set=neural_gpu``

    The paper's size: 24 maps, 4 columns, two CGRUs in a step, kernels of 3 x 3, six relaxed sets.
    """
    return HParams(model="neural_gpu").change(
        hidden_size=24,
        num_layers=2,
        source_stretch=1.0,
        shared_embedding=False,
        **NEURAL_GPU_TRAINING,
        relaxed_sets=6,
        gradient_noise=0.001,
        dropout=0.09,
        train_steps=40_000,
    )


def extended_neural_gpu() -> HParams:
    """``ut-trainer --problem=translate_ende_wmt14 --hparams_set=extended_neural_gpu``

    The paper's size for translation: 512 maps, 4 columns, two CGRUs in a step, no curriculum.
    """
    return HParams(model="extended_neural_gpu").change(
        hidden_size=512,
        num_layers=2,
        source_stretch=1.2,
        shared_embedding=False,
        dropout=0.15,
        clip_norm=1.0,
    )


_LARGE_DROPOUT: dict[str, Any] = {
    "dropout": 0.3,
    "attention_dropout": 0.1,
    "relu_dropout": 0.1,
}
_UT_BASE: dict[str, Any] = {
    "hidden_size": 1024,
    "filter_size": 4096,
    "num_heads": 16,
    "num_steps": 6,
    **_LARGE_DROPOUT,
}
_TRANSFORMER_BASE: dict[str, Any] = {
    "hidden_size": 512,
    "filter_size": 2048,
    "num_heads": 8,
    "num_layers": 6,
}
# max_length is that of the algorithmic problems with the end symbol.
NEURAL_GPU_TRAINING: dict[str, Any] = {
    "learning_rate": 0.005,
    "schedule": "cosine",
    "warmup_steps": 100,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-5,
    "clip_norm": 1.0,
    "label_smoothing": 0.0,
    "batch_size": 32,
    "batch_unit": "examples",
    "max_length": 41,
    "min_length_bucket": 6,
    "length_bucket_step": 1.2,
    "curriculum": "length",
    "curriculum_start": 6,
}
