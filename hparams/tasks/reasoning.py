"""Recipes for puzzles with an answer at every position, on a CPU.

How it is used::

    ut-trainer --problem=sudoku_4x4 --hparams_set=ut_act_sudoku4
"""

from __future__ import annotations

from typing import Any

from ut_tf.config.hparams import HParams
from ut_tf.hparams.tasks.recipes import COSINE


def ut_sudoku4() -> HParams:
    """``ut-trainer --problem=sudoku_4x4 --hparams_set=ut_sudoku4``

    Sudoku with 4 digits at a fixed depth: 64 / 256 / 4, 6 steps, a learned vector for each cell,
    batches of 128 puzzles.
    """
    return HParams().change(num_steps=6, **_SUDOKU4)


def ut_act_sudoku4() -> HParams:
    """``ut-trainer --problem=sudoku_4x4 --hparams_set=ut_act_sudoku4``

    ut_sudoku4 with dynamic halting after at most 12 steps and a ponder cost of 0.005.
    """
    return ut_sudoku4().change(halting="basic", act_max_steps=12, act_loss_weight=0.005)


def ut_prefix_sums() -> HParams:
    """``ut-trainer --problem=prefix_sums_32 --hparams_set=ut_prefix_sums``

    Prefix sums that go on beyond the training's length: 64 / 64 / 4, separable convolutions, no
    positions, half a step more per bit, so that the last bit hears of the first, and a curriculum:
    all lengths at once are learned from the first bit on, and slowly.
    """
    return HParams().change(
        hidden_size=64,
        filter_size=64,
        num_heads=4,
        num_steps=2,
        steps_per_position=0.5,
        transition="sepconv",
        position="none",
        step_encoding="none",
        attention_scale="log_length",
        attention_scale_length=32,
        dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
        **{
            **_TRAINING,
            "batch_size": 2048,
            "batch_unit": "tokens",
            "max_length": 33,
            "length_bucket_step": 1.5,
            "curriculum": "length",
            "curriculum_start": 8,
            "learning_rate": 0.002,
            "schedule": "constant",
            "train_steps": 1500,
        },
    )


_TRAINING: dict[str, Any] = {
    **COSINE,
    "batch_size": 128,
    "batch_unit": "examples",
    "max_length": 16,
    "learning_rate": 0.001,
    "warmup_steps": 100,
    "label_smoothing": 0.0,
    "train_steps": 2000,
    "eval_frequency": 250,
}
_SUDOKU4: dict[str, Any] = {
    "hidden_size": 64,
    "filter_size": 256,
    "num_heads": 4,
    "position": "learned",
    "learned_positions": 16,
    "weight_decay": 0.1,
    **_TRAINING,
}
