"""What recipes for a CPU have in common."""

from __future__ import annotations

from typing import Any

from ut_tf.config.hparams import HParams

COSINE: dict[str, Any] = {"schedule": "cosine", "adam_beta2": 0.98, "clip_norm": 1.0}
"""Adam with a cosine to zero over train_steps."""

PRE_NORM: dict[str, Any] = {**COSINE, "norm": "pre"}

NARROW: dict[str, Any] = {
    **PRE_NORM,
    "hidden_size": 128,
    "num_heads": 4,
    "length_bucket_step": 1.5,
    "label_smoothing": 0.0,
}
"""States of width 128, for large vocabularies or little text."""


def halting(hparams: HParams) -> HParams:
    """The same with dynamic halting after at most 6 steps and a ponder cost of 0.001."""
    return hparams.change(halting="basic", act_max_steps=6, act_loss_weight=0.001)
