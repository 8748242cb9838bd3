"""What an evaluation found: figures, how sure they are, and of how many examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ut_tf.metrics.intervals import Interval


@dataclass(frozen=True)
class Measurement:
    """Metrics by name, of one set or of all sets of a problem.

    Args:
      metrics: name -> figure.
      intervals: name -> (low, high) at 95 % confidence, for those metrics that have one.
      examples: name of the set -> number of examples judged.
      signatures: name -> the scorer's account of its settings, for those metrics that have one
        (BLEU).
    """

    metrics: dict[str, float]
    intervals: dict[str, Interval] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointMeasurement(Measurement):
    """What was found of a checkpoint.

    Args:
      step: of the checkpoint.
      split: that the examples come from; several are separated by commas.
      parameters: numbers in the model's weights.
      data_note: how the data differs from the published benchmark's (see Problem.data_note); empty:
        it does not.
      training_minutes: that the training up to the checkpoint took; None: the run directory does
        not tell.
      selection: what validation said of it, {"metric", "direction", "value"}; None: nothing.
    """

    step: int = 0
    split: str = ""
    parameters: int = 0
    data_note: str = ""
    training_minutes: float | None = None
    selection: dict[str, Any] | None = None
