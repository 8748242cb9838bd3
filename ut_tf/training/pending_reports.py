"""Update reports kept on the device until a hook reads them."""

import math
from dataclasses import dataclass, field
from typing import Any

from ut_tf.errors import UserError
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.training.progress import Speedometer
from ut_tf.training.state_values import TrainingState
from ut_tf.training.step import TrainingStep
from ut_tf.training.step_report import StepReport

_SMALLEST_LOSS_SCALE = 2.0**-14


@dataclass
class PendingReports:
    """Reports on the device, read together.

    Args:
      step: whose reports they are.
      state: takes them in.
      scaled: whether the loss is scaled, so that an update may be skipped.
      store: its last checkpoint is named where an update fails.
      speedometer: counts their tokens.
    """

    step: TrainingStep
    state: TrainingState
    scaled: bool
    store: CheckpointStore
    speedometer: Speedometer
    _pending: list[Any] = field(default_factory=list, init=False)

    def __len__(self) -> int:
        return len(self._pending)

    def append(self, report: Any) -> None:
        """Adds the report of the next update; does not wait for it."""
        self._pending.append(report)

    def read(self) -> None:
        """Reads all reports into the state; waits for the device.

        Raises:
          UserError: the loss or the gradient of an update was not finite; names the first.
        """
        first = self.state.step - len(self._pending) + 1
        reports = self.step.read(self._pending)
        self._pending = []
        for number, report in enumerate(reports, first):
            self._check(number, report)
            self.state.window.add(report)
            self.state.curriculum.add(report.right, report.judged)
            self.speedometer.count(report.tokens)

    def _check(self, step: int, report: StepReport) -> None:
        finite = math.isfinite(report.loss) and (self.scaled or math.isfinite(report.gradient_norm))
        if finite and (not self.scaled or report.loss_scale >= _SMALLEST_LOSS_SCALE):
            return
        fault = f"the loss is {report.loss}"
        if math.isfinite(report.loss):
            fault = "the gradient is not finite"
        kept = self.store.steps()
        way_back = "there is no checkpoint yet"
        if kept:
            way_back = f"the last checkpoint, of step {kept[-1]}, is from before"
        raise UserError(
            f"{fault} at step {step} (learning rate {report.learning_rate:.3g}), expected a finite"
            " number: lower `learning_rate`, raise `warmup_steps` or set `clip_norm`, and start"
            f" again in another `output_dir`; {way_back}."
        )
