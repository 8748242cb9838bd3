"""The result of an evaluation: figures, how sure they are, and of how many examples."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ut_tf.metrics.intervals import Interval
from ut_tf.metrics.sums import Group

T = TypeVar("T")


@dataclass(frozen=True)
class Measurement:
    """Metrics by name, of one set or of all sets of a problem.

    Args:
      metrics: name -> figure.
      intervals: name -> (low, high) at 95 % confidence, for those metrics that have one.
      examples: name of the set -> number of examples judged.
      signatures: name -> the scorer's account of its settings, for those metrics that have one
        (BLEU).
      groups: the groups of the examples by the name that ends their metrics ("error/2": "2").
    """

    metrics: dict[str, float]
    intervals: dict[str, Interval] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A metric, and in brackets its interval if it has one."""
        value = f"{self.metrics[name]:.4g}"
        if name not in self.intervals:
            return value
        low, high = self.intervals[name]
        return f"{value} [{low:.4g}, {high:.4g}]"

    def prefixed(self, name: str) -> "Measurement":
        """The same with the name of the set before each metric's; `name` may be empty."""
        if not name:
            return self
        return Measurement(
            _prefixed(name, self.metrics),
            _prefixed(name, self.intervals),
            self.examples,
            _prefixed(name, self.signatures),
            _prefixed(name, self.groups),
        )


def _prefixed(name: str, values: Mapping[str, T]) -> dict[str, T]:
    return {f"{name}/{metric}": value for metric, value in values.items()}


@dataclass(frozen=True)
class CheckpointMeasurement(Measurement):
    """The result for a checkpoint.

    Args:
      step: of the checkpoint.
      split: that the examples come from; several are separated by commas.
      parameters: numbers in the model's weights.
      data_note: how the data differs from the published benchmark's (see Problem.data_note); empty:
        it does not.
      training_minutes: that the training up to the checkpoint took; None: the run directory does
        not tell.
      headlines: the metric that says most of each method, without the names of the sets.
      selection: what validation said of it, as ``selection_of`` returns it; None: nothing.
      decode: the decoding options that were other than the problem's, "name=value,name=value".
    """

    step: int = 0
    split: str = ""
    parameters: int = 0
    data_note: str = ""
    training_minutes: float | None = None
    selection: dict[str, Any] | None = None
    headlines: tuple[str, ...] = ()
    decode: str = ""
