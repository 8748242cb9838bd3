"""The report of one update, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class StepReport:
    """The values that one update reports.

    Args:
      loss: what was minimised: cross entropy in nats per token (or example) and the weighted ponder
        cost.
      cross_entropy: the former part alone.
      tokens: tokens (examples, for classes) of the global batch, all accumulated batches together.
      gradient_norm: global norm before clipping; not finite where the update was skipped under a
        dynamic loss scale.
      learning_rate: of this update.
      loss_scale: factor on the loss after this update; 1 without scaling.
      ponder_time: mean steps per position; 0 without dynamic halting.
      ponder_histogram: positions per ponder time 0, 1, … on all replicas; empty without dynamic
        halting.
      right, judged: examples of the curriculum's newest bucket without a fault, and all of these; 0
        without a curriculum.
    """

    loss: float
    cross_entropy: float
    tokens: float
    gradient_norm: float
    learning_rate: float
    loss_scale: float
    ponder_time: float = 0.0
    ponder_histogram: tuple[float, ...] = ()
    right: float = 0.0
    judged: float = 0.0

    @classmethod
    def from_arrays(cls, values: Mapping[str, Any]) -> Self:
        """Makes the report from numpy arrays: ``ponder_histogram`` [times], if any, and scalars."""
        numbers = {name: float(value) for name, value in values.items() if not value.ndim}
        histogram = np.asarray(values.get("ponder_histogram", ()), np.float64)
        positions = histogram.sum()
        times = np.arange(len(histogram))
        ponder_time = float((histogram * times).sum() / positions) if positions else 0.0
        return cls(**numbers, ponder_time=ponder_time, ponder_histogram=tuple(histogram.tolist()))
