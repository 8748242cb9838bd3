"""The report of one update, on the host."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

STEP_LOSSES = "step_losses"
ADDED = "loss/"
"""What the names of added losses begin with, before the path of their layer."""


@dataclass(frozen=True)
class StepReport:
    """The values that one update reports.

    Args:
      loss: what was minimised: cross entropy in nats per token (or example), the weighted ponder
        cost and the losses that layers add.
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
      step_losses, step_counts: sums of the cross entropy after each supervised step, from the first
        on, and how many targets (of deep supervision rows) each sum is of; empty where the
        supervision knows no steps.
      added: the losses that layers add, each by "loss/" and the path of its layer.
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
    step_losses: tuple[float, ...] = ()
    step_counts: tuple[float, ...] = ()
    added: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_arrays(cls, values: Mapping[str, Any]) -> Self:
        """Makes the report from numpy arrays: ``ponder_histogram`` [times] and, sums above counts,
        ``STEP_LOSSES`` [2, steps], if there are any, and scalars.
        """
        numbers = {name: float(value) for name, value in values.items() if not value.ndim}
        histogram = np.asarray(values.get("ponder_histogram", ()), np.float64)
        positions = histogram.sum()
        times = np.arange(len(histogram))
        ponder_time = float((histogram * times).sum() / positions) if positions else 0.0
        added = {name: numbers.pop(name) for name in list(numbers) if name.startswith(ADDED)}
        times_of = tuple(histogram.tolist())
        sums, counts = np.asarray(values.get(STEP_LOSSES, [(), ()]), np.float64).tolist()
        return cls(
            **numbers,
            ponder_time=ponder_time,
            ponder_histogram=times_of,
            step_losses=tuple(sums),
            step_counts=tuple(counts),
            added=added,
        )
