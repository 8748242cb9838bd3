"""Recipes for copy, reverse and addition, trained to length 40 on a CPU.

How it is used::

    ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_algorithmic_reverse

The variants of the recurrence (ut_highway_tiny, ...) reverse digits in ut_algorithmic_reverse's
network with four steps, for 1000 updates; docs/models.md has the equations. PonderNet's prior of
rate r, cut off after N steps, expects 1/r - N (1 - r)^N / (1 - (1 - r)^N) of them.
"""

from __future__ import annotations

from typing import Any

from ut_tf.config.hparams import HParams
from ut_tf.hparams.sizes import NEURAL_GPU_TRAINING
from ut_tf.hparams.tasks.recipes import COSINE, halting


def ut_algorithmic() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=ut_algorithmic``

    The paper's network with positions from a random offset, for copy, reverse and addition trained
    to length 40 on a CPU: 128 / 512 / 4, 2 steps, no dropout. Attention starts out by likeness
      (equal query and key kernels); beyond 41 keys its logits grow
    with the logarithm of their number.
    """
    return HParams().change(hidden_size=128, filter_size=512, num_steps=2, **_RECIPE)


def ut_algorithmic_reverse() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_algorithmic_reverse``

    ut_algorithmic for reversal: the decoder counts its positions down from the input's last symbol
      to a start symbol before the first.
    """
    return ut_algorithmic().change(**_REVERSED)


def ut_act_algorithmic() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=ut_act_algorithmic``

    ut_algorithmic with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return halting(ut_algorithmic())


def ut_algorithmic_rotary() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=ut_algorithmic_rotary``

    Not the paper's network: rotary positions, counted from the start in half of the heads and from
    the end in the others, and spread out at random in training. Output symbol i stands where input
    symbol i stands, counted from either end: close to telling the answer.
    """
    return ut_algorithmic().change(
        norm="pre",
        position="rotary",
        position_from="both",
        position_offset="mixed",
        eval_position_offset=0,
        num_steps=2,
    )


def ut_highway_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_highway_tiny``

    The highway recurrence: a gate decides between the state and the block's output.
    """
    return _four_steps(recurrence="highway")


def ut_skip_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_skip_tiny``

    The skip recurrence: a gate decides between the embedded input and the block's output.
    """
    return _four_steps(recurrence="skip")


def ut_dwa_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_dwa_tiny``

    Depth-wise attention: each step reads a weighted sum of the states of all steps before it.
    """
    return _four_steps(recurrence="dwa")


def ut_gru_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_gru_tiny``

    States combined by a GRU, in the transition's place; without step embedding.
    """
    return _four_steps(recurrence="gru", step_encoding="none")


def ut_lstm_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_lstm_tiny``

    States combined by an LSTM, in the transition's place; without step embedding.
    """
    return _four_steps(recurrence="lstm", step_encoding="none")


def ut_conditional_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_conditional_tiny``

    One attention for all steps, and a transition for each.
    """
    return _four_steps("conditional_universal_transformer")


def ut_hybrid_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_hybrid_tiny``

    A GRU over the positions before two recurrent steps.
    """
    return _four_steps(recurrent_layer="gru", num_steps=2)


def ut_pondernet_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_pondernet_tiny``

    ut_algorithmic_reverse with at most 4 steps, of which the prior expects 1.9, for 1000 updates.
    """
    return ut_algorithmic_reverse().change(
        halting="pondernet", act_max_steps=4, ponder_prior=0.4, train_steps=1000, eval_frequency=125
    )


def _four_steps(model: str = "universal_transformer", **changes: Any) -> HParams:
    values = {
        "hidden_size": 128,
        "filter_size": 512,
        "num_steps": 4,
        **_RECIPE,
        **_REVERSED,
        "train_steps": 1000,
        "eval_frequency": 125,
    }
    return HParams(model).change(**{**values, **changes})


def transformer_algorithmic() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=transformer_algorithmic``

    ut_algorithmic's recipe for 88 / 388 / 4, 2 layers on either side: about as many parameters as
    its two blocks, and as many layers as it has steps. (With 64 / 256 and 4 layers copying was not
    learned in as many updates.) For reversal as in ut_algorithmic_reverse:
    ``--hparams=target_position=backward,input_start_symbol=true``.
    """
    return HParams("transformer").change(hidden_size=88, filter_size=388, num_layers=2, **_RECIPE)


def mem_transformer_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=mem_transformer_tiny``

    128 / 512 / 4, 2 layers, 10 memory vectors, with the recipe of ut_algorithmic_reverse.
    """
    return HParams("mem_transformer").change(**_WITH_MEMORY)


def mem_bottleneck_transformer_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40
    --hparams_set=mem_bottleneck_transformer_tiny``

    mem_transformer_tiny whose encoder's symbols see each other through the memory only.
    """
    return HParams("mem_bottleneck_transformer").change(**_WITH_MEMORY)


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
        **{**_TRAINING, "learning_rate": 0.003, "adam_beta2": 0.999, "adam_epsilon": 1e-8},
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
        embedding_scale="none",
        embedding_stddev=0.1,
        **_TRAINING,
    )


def neural_gpu_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=neural_gpu_tiny``

    For copy and reverse on a CPU: 24 maps, 2 columns, one set of parameters.
    """
    return HParams(model="neural_gpu").change(
        **_IMAGE,
    )


def extended_neural_gpu_tiny() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=extended_neural_gpu_tiny``

    For copy and reverse on a CPU: neural_gpu_tiny with a decoder.
    """
    return HParams(model="extended_neural_gpu").change(
        **_IMAGE,
    )


_TRAINING: dict[str, Any] = {
    **COSINE,
    "learning_rate": 0.001,
    "warmup_steps": 100,
    "label_smoothing": 0.0,
    "batch_size": 1312,
    "min_length_bucket": 11,
    "length_bucket_step": 1.5,
    "train_steps": 2000,
    "eval_frequency": 250,
}
_RECIPE: dict[str, Any] = {
    **_TRAINING,
    "num_heads": 4,
    "query_key_init": "equal",
    "shared_embedding": False,
    "position_offset": "random",
    "max_position_offset": 1000,
    "eval_position_offset": 300,
    "attention_scale": "log_length",
    "attention_scale_length": 41,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
}
_REVERSED: dict[str, Any] = {"target_position": "backward", "input_start_symbol": True}
_WITH_MEMORY: dict[str, Any] = {
    "hidden_size": 128,
    "filter_size": 512,
    "num_layers": 2,
    "memory_size": 10,
    **_RECIPE,
    **_REVERSED,
}
_IMAGE: dict[str, Any] = {
    "hidden_size": 24,
    "num_layers": 2,
    "image_width": 2,
    "source_stretch": 1.0,
    "shared_embedding": False,
    "dropout": 0.09,
    **NEURAL_GPU_TRAINING,
    "train_steps": 2000,
    "eval_frequency": 250,
}
