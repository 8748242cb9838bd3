"""The Universal Transformer's named sets: the paper's semantics in six sizes, with dynamic halting,
and recipes for a CPU.

How it is used::

    from ut_tf import registry
    hparams = registry.hparams_sets.get("ut_base")()

How it works: every set is a function that changes fields of ``HParams()``, whose defaults are the
paper's network and tensor2tensor's optimizer. Sizes are d / filter / heads and T steps. A batch is
counted in tokens per replica unless the set says otherwise.
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams


def ut_base() -> HParams:
    """``ut-trainer --problem=babi_qa --hparams_set=ut_base``

    1024 / 4096 / 16, 6 steps, dropout 0.3: as many parameters in its one layer as six layers of
    half the width have.
    """
    return HParams().change(
        hidden_size=1024, filter_size=4096, num_heads=16, num_steps=6, dropout=0.3
    )


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


def ut_babi() -> HParams:
    """``ut-trainer --problem=babi_qa_task2_10k --hparams_set=ut_babi``

    For bAbI on a CPU: 128 / 512 / 4, 4 steps, separable convolutions over the facts (the paper's
      transition for bAbI; without them
    task 11, "then she went", stays at 15 %), pre-norm, positions counted back from the question and
    added once, a learned bias per relative position, word masks drawn around one, and batches of 64
    stories in few length buckets.
    """
    return HParams().change(
        hidden_size=128,
        filter_size=512,
        num_heads=4,
        num_steps=4,
        transition="sepconv",
        norm="pre",
        position_from="end",
        position_every_step=False,
        relative_bias=70,
        word_mask_stddev=0.5,
        attention_dropout=0.0,
        relu_dropout=0.0,
        **_BABI_TRAINING,
    )


def ut_act_babi() -> HParams:
    """``ut-trainer --problem=babi_qa_task2_10k --hparams_set=ut_act_babi``

    ut_babi with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return ut_babi().change(halting="basic", act_max_steps=6, act_loss_weight=0.001)


def ut_babi_unordered() -> HParams:
    """``ut-trainer --problem=babi_qa_task19_10k --hparams_set=ut_babi_unordered``

    ut_babi for tasks whose facts may stand in any order (17: positions, 19: paths): neither
    positions nor a bias per relative position nor convolutions, word masks drawn around zero, half
    the dropout.
    """
    return ut_babi().change(
        transition="fc",
        position="none",
        relative_bias=0,
        dropout=0.05,
        word_mask_mean=0.0,
        word_mask_stddev=1.0,
        train_steps=4000,
    )


def ut_babi_induction() -> HParams:
    """``ut-trainer --problem=babi_qa_task16_10k --hparams_set=ut_babi_induction``

    ut_babi for task 16, where ut_babi stays at guessing by frequency: attention starts out by
    likeness and away from itself, relative positions only, nearly plain sums of words, no
    convolutions, no dropout.
    """
    return ut_babi().change(
        transition="fc",
        position="none",
        query_key_init="equal",
        relative_self_bias=-5.0,
        word_mask_stddev=0.2,
        dropout=0.0,
    )


def ut_babi_joint_1k() -> HParams:
    """``ut-trainer --problem=babi_qa_1k --hparams_set=ut_babi_joint_1k``

    ut_babi with the regularisation that a thousand questions per task want: attention dropout,
    left-out words, ten times the decay; the transition is fully connected.
    """
    return ut_babi().change(
        transition="fc",
        word_mask_stddev=1.0,
        attention_dropout=0.1,
        word_dropout=0.05,
        weight_decay=0.1,
        warmup_steps=500,
        train_steps=30_000,
        eval_frequency=1000,
    )


def ut_algorithmic() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=ut_algorithmic``

    The paper's network with positions from a random offset, for copy, reverse and addition trained
    to length 40 on a CPU: 128 / 512 / 4, 2 steps, no dropout. Attention starts out by likeness
      (equal query and key kernels); beyond 41 keys its logits grow
    with the logarithm of their number.
    """
    return HParams().change(
        hidden_size=128,
        filter_size=512,
        num_heads=4,
        num_steps=2,
        query_key_init="equal",
        shared_embedding=False,
        position_offset="random",
        max_position_offset=1000,
        eval_position_offset=300,
        attention_scale="log_length",
        attention_scale_length=41,
        **_NO_DROPOUT,
        **_ALGORITHMIC_TRAINING,
    )


def ut_algorithmic_reverse() -> HParams:
    """``ut-trainer --problem=algorithmic_reverse_decimal40 --hparams_set=ut_algorithmic_reverse``

    ut_algorithmic for reversal: the decoder counts its positions down from the input's last symbol
      to a start symbol before the first.
    """
    return ut_algorithmic().change(target_position="backward", input_start_symbol=True)


def ut_act_algorithmic() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=ut_act_algorithmic``

    ut_algorithmic with dynamic halting after at most 6 steps and a ponder cost of 0.001.
    """
    return ut_algorithmic().change(halting="basic", act_max_steps=6, act_loss_weight=0.001)


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


_ADAM_COSINE = {
    "learning_rate": 0.001,
    "schedule": "cosine",
    "warmup_steps": 300,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "clip_norm": 1.0,
}
_BABI_TRAINING = {
    **_ADAM_COSINE,
    "batch_size": 64,
    "batch_unit": "examples",
    "length_bucket_step": 1.5,
    "weight_decay": 0.01,
    "label_smoothing": 0.0,
    "train_steps": 2000,
    "eval_frequency": 200,
    "early_stopping_patience": 0,
}
_NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}
_ALGORITHMIC_TRAINING = {
    **_ADAM_COSINE,
    "adam_beta2": 0.98,
    "adam_epsilon": 1e-9,
    "warmup_steps": 100,
    "batch_size": 1312,
    "min_length_bucket": 11,
    "length_bucket_step": 1.5,
    "label_smoothing": 0.0,
    "train_steps": 2000,
    "eval_frequency": 250,
}
