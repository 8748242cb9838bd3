"""Recipes for ten times the training's length: copy and reverse to 400 symbols, and addition.

They are not the paper's network (arXiv 1807.03819, table 4). Positions are rotary, in half of the
heads counted from the start and in the others from the end, so that output symbol i stands where
input symbol i stands. In training they are spread out at random over a window of random width, so
that distances at ten times the length have been met. Attention's logits grow with the logarithm of
the number of keys.

In addition, the positions of the second summand begin again behind the separator: digits of equal
worth and the digit of their sum share a position (position coupling, arXiv 2405.20671).
"""

from __future__ import annotations

from ut_tf.config.hparams import HParams
from ut_tf.hparams.tasks.algorithmic import ut_algorithmic_rotary


def ut_length_generalization() -> HParams:
    """``ut-trainer --problem=algorithmic_copy_decimal40 --hparams_set=ut_length_generalization``

    ut_algorithmic_rotary with the end symbol at position 0 from the end, so that reversal's output
    symbol i stands just where the i-th last digit stands, and not beside it; 1000 updates.
    """
    return ut_algorithmic_rotary().change(end_position=0, train_steps=1000, eval_frequency=250)


def ut_length_generalization_addition() -> HParams:
    """``ut-trainer --problem=algorithmic_addition_decimal40
    --hparams_set=ut_length_generalization_addition``

    ut_length_generalization with coupled positions, counted from the start, four steps, a learned
    bias per relative position (the digit before decides the carry) and a start symbol to look at
    where a summand has ended; 6000 updates.
    """
    return ut_length_generalization().change(
        position_from="start",
        position_separator=12,
        input_start_symbol=True,
        relative_bias=4,
        num_steps=4,
        train_steps=6000,
        eval_frequency=500,
    )
