"""The logs of a run: ``metrics.jsonl`` and TensorBoard's event files.

``metrics.jsonl`` has a line per log point, {"kind": "train", "step", "loss", "learning_rate", ...,
"ponder_histogram": [positions per ponder time], "step_losses": [loss after each supervised
step]}, and one per evaluation, {"kind": "eval", "step",
...}; each ends with its checksum, "crc32". Numbers are written so that reading them gives the same
bits. When a run resumes, the lines of steps after the restored one are dropped first, so that the
file reads as if the run had never been interrupted.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.storage.files import open_to_append, write_parts
from ut_tf.storage.json_lines import lines, read_object, sealed, step_of
from ut_tf.storage.layout import EVENTS_FOLDER, METRICS_FILE

# TensorBoard shows one kind of data per tag: the mean is the scalar train/ponder_time.
_HISTOGRAM_TAG = "train/ponder_time_histogram"
_HISTOGRAM_SAMPLES = 2000


class RunLog:
    """The log of one run; made by the chief alone.

    Args:
      output_dir: of the run.
      step: where training begins or resumes.
    """

    def __init__(self, output_dir: Path, step: int) -> None:
        self._metrics = Path(output_dir) / METRICS_FILE
        drop_lines_after(self._metrics, step)
        self._writer = tf.summary.create_file_writer(str(Path(output_dir) / EVENTS_FOLDER))

    def train(
        self,
        step: int,
        values: Mapping[str, float],
        histogram: Sequence[float],
        step_losses: Sequence[float | None] = (),
    ) -> None:
        """Writes a log point: `values` by name, the number of positions per ponder time, and the
        loss after each step that is supervised (each empty: none; a loss of None is not known).
        """
        pondering = {"ponder_histogram": list(histogram)} if sum(histogram) else {}
        by_step = {"step_losses": list(step_losses)} if step_losses else {}
        self._append({"kind": "train", "step": step, **values, **pondering, **by_step})
        numbered = {f"step_loss/{number:02}": loss for number, loss in enumerate(step_losses, 1)}
        known = {name: loss for name, loss in numbered.items() if loss is not None}
        values = {**values, **known}
        with self._writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(f"train/{name}", value)
            if sum(histogram):
                tf.summary.histogram(_HISTOGRAM_TAG, _samples(histogram))

    def evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Writes the metrics of an evaluation."""
        self._append({"kind": "eval", "step": step, **metrics})
        with self._writer.as_default(step=step):
            for name, value in metrics.items():
                tf.summary.scalar(f"eval/{name}", value)
        self._writer.flush()

    def hparams(self, trial: str, values: Mapping[str, bool | int | float | str]) -> None:
        """Writes hyperparameters by name, for TensorBoard's HParams page, where runs of the same
        `trial` are one.
        """
        from tensorboard.plugins.hparams import api

        with self._writer.as_default(step=0):
            api.hparams(dict(values), trial_id=trial)

    def close(self) -> None:
        """Flushes and closes TensorBoard's file."""
        self._writer.close()

    def _append(self, line: Mapping[str, Any]) -> None:
        with open_to_append(self._metrics) as file:
            file.write(f"{sealed(_to_json(line))}\n".encode())


def drop_lines_after(path: Path, step: int) -> None:
    """Removes the lines of steps after `step`, and those that are damaged or cut short, from a file
    of JSON lines.
    """
    if not path.is_file():
        return
    if not all(_is_until(line, step) for line in lines(path)):
        write_parts(path, (line for line in lines(path) if _is_until(line, step)))


def _is_until(line: bytes, step: int) -> bool:
    """Whether a line is whole, and of a step until `step`."""
    values = read_object(line) if line.endswith(b"\n") else None
    own = None if values is None else step_of(values)
    return own is not None and own <= step


def _to_json(line: Mapping[str, Any]) -> str:
    # JSON knows no NaN: null is what every reader understands.
    return json.dumps(
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in line.items()
        }
    )


def _samples(histogram: Sequence[float]) -> Any:
    counts = np.asarray(histogram)
    shares = np.ceil(counts * min(1.0, _HISTOGRAM_SAMPLES / counts.sum())).astype(np.int64)
    return np.repeat(np.arange(len(counts)), shares)
