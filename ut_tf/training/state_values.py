"""The state of a run: the plain values that decide, beside the variables, how training goes on."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from ut_tf.errors import UserError
from ut_tf.storage.layout import STATE_FILE
from ut_tf.storage.typed_lines import typed
from ut_tf.training.batches import Position
from ut_tf.training.curriculum import CurriculumState
from ut_tf.training.step_report import StepReport


@dataclass
class Window:
    """The reports since the last log point; saved with a checkpoint, so that a resumed run logs the
    same numbers.
    """

    steps: int = 0
    loss: float = 0.0
    cross_entropy: float = 0.0
    tokens: float = 0.0
    gradient_norm: float = 0.0
    learning_rate: float = 0.0
    loss_scale: float = 1.0
    histogram: list[float] = dataclasses.field(default_factory=list)
    step_losses: list[float] = dataclasses.field(default_factory=list)
    step_counts: list[float] = dataclasses.field(default_factory=list)
    added: dict[str, float] = dataclasses.field(default_factory=dict)

    def add(self, report: StepReport) -> None:
        """Adds an update's report."""
        self.steps += 1
        self.loss += report.loss
        self.cross_entropy += report.cross_entropy
        self.tokens += report.tokens
        self.gradient_norm, self.learning_rate, self.loss_scale = (
            report.gradient_norm,
            report.learning_rate,
            report.loss_scale,
        )
        for name, loss in report.added.items():
            self.added[name] = self.added.get(name, 0.0) + loss
        self.histogram = _plus(self.histogram, report.ponder_histogram)
        self.step_losses = _plus(self.step_losses, report.step_losses)
        self.step_counts = _plus(self.step_counts, report.step_counts)

    @property
    def ponder_time(self) -> float | None:
        """Mean steps per position; None without dynamic halting."""
        positions = sum(self.histogram)
        if positions:
            return sum(time * count for time, count in enumerate(self.histogram)) / positions
        return None

    def losses_by_step(self) -> list[float | None]:
        """The mean cross entropy after each supervised step; None where no target came so far."""
        pairs = zip(self.step_losses, self.step_counts, strict=True)
        return [total / count if count else None for total, count in pairs]

    def values(self) -> dict[str, float]:
        """The logged values: means over the window, and the last update's norm and rate."""
        values = {
            "loss": self.loss / self.steps,
            "cross_entropy": self.cross_entropy / self.steps,
            "learning_rate": self.learning_rate,
            "gradient_norm": self.gradient_norm,
            **{name: loss / self.steps for name, loss in self.added.items()},
        }
        if self.ponder_time is not None:
            values["ponder_time"] = self.ponder_time
        if self.loss_scale != 1.0:
            values["loss_scale"] = self.loss_scale
        return values


@dataclass
class TrainingState:
    """The progress after a step.

    Fields:
      step: updates so far.
      position: where in the data.
      best_step, best_value, best_loss: the best evaluation so far, its selection metric and its
        loss; None before the first.
      bad_evaluations: evaluations since the selection metric was last better than before.
      metrics: of the last evaluation.
      evaluated_step: when that was; 0: never.
      window: reports since the last log point.
      curriculum: where that stands; without meaning where there is none.
    """

    step: int = 0
    position: Position = dataclasses.field(default_factory=Position)
    best_step: int | None = None
    best_value: float | None = None
    best_loss: float | None = None
    bad_evaluations: int = 0
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    evaluated_step: int = 0
    window: Window = dataclasses.field(default_factory=Window)
    curriculum: CurriculumState = dataclasses.field(default_factory=CurriculumState)

    def judge(
        self, value: float, direction: Literal["min", "max"], loss: float | None = None
    ) -> None:
        """Takes in the value of the selection metric measured at this step, and the loss.

        Of equal values the one with the lower loss is the best: a metric that has become perfect
        tells nothing more. Such a checkpoint does not reset the patience of early stopping. A value
        or a loss that is no finite number is never the best.
        """
        better = self._compared(value, direction) if _is_sound(value, loss) else -1
        if better > 0 or (better == 0 and _lower(loss, self.best_loss)):
            self.best_step, self.best_value, self.best_loss = self.step, value, loss
        self.bad_evaluations = 0 if better > 0 else self.bad_evaluations + 1

    def _compared(self, value: float, direction: Literal["min", "max"]) -> int:
        """Returns 1 if `value` is better than the best so far, 0 if it equals it, otherwise -1."""
        # Versions until 0.4 took evaluations for the best that were not sound.
        if self.best_value is None or not _is_sound(self.best_value, self.best_loss):
            return 1
        gain = self.best_value - value if direction == "min" else value - self.best_value
        return (gain > 0) - (gain < 0)

    def out_of_patience(self, patience: int) -> bool:
        """Whether so many evaluations brought no better one; with patience 0 never."""
        return patience > 0 and self.bad_evaluations >= patience

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; floats keep every bit."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Reads the state written by ``to_dict``; other entries are ignored.

        Raises:
          UserError: an entry is not what ``to_dict`` writes.
        """
        try:
            state: Self = typed(values, cls)
        except ValueError as error:
            raise UserError(
                f"{STATE_FILE} of a checkpoint is of another version, or damaged ({error}): train"
                " with the version that wrote it, or remove that checkpoint."
            ) from error
        return state


def _plus(sums: list[float], values: Sequence[float]) -> list[float]:
    if not sums:
        return list(values)
    return [total + value for total, value in zip(sums, values, strict=True)]


def _lower(loss: float | None, than: float | None) -> bool:
    """Whether `loss` is known, and below the other if that is known, too."""
    return loss is not None and (than is None or loss < than)


def _is_sound(value: float, loss: float | None) -> bool:
    return math.isfinite(value) and (loss is None or math.isfinite(loss))
