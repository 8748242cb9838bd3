"""The results of ut-eval in a run directory: ``evaluations.jsonl``, one JSON object a line.

Example::

    append_record(run.output_dir, Record(time=now(), problem="babi_qa", ...))
    for record in latest(read_records("runs/babi_qa-ut_babi")):
        record.step, record.metrics["error"], record.intervals["error"]

How it works: a line is added by each call of ut-eval, also of what was measured before; readers
take the last (``latest``). A last line that was cut short is left out with a warning, and removed
by the next call. Numbers that are not finite are null in the file. Each line ends with its
checksum. Imports neither TensorFlow nor numpy.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ut_tf.errors import file_errors
from ut_tf.storage.files import MOST_LINES_BYTES, open_to_append, read_bounded
from ut_tf.storage.json_lines import read_object, sealed
from ut_tf.storage.layout import RECORDS_FILE
from ut_tf.storage.typed_lines import plain, read_typed


@dataclass(frozen=True)
class Record:
    """One call of ut-eval.

    Args:
      time: when it ended, ISO 8601 in UTC.
      problem: registered name of the run's problem.
      hparams_set: registered name of its hyperparameter set.
      seed: of the run.
      checkpoint: what was requested: "best", "last", a step's number or a path.
      step: of the checkpoint that was judged.
      split: that the examples came from; several are separated by commas.
      metrics: name -> figure.
      lengths: that were requested; empty: the problem's.
      intervals: name -> [low, high] at 95 % confidence, of those metrics that have one.
      examples: name of the set ("" where it has none) -> number of examples judged.
      data_note: how the data that was judged differs from the published benchmark's; empty: it does
        not.
      test_problem: the problem whose data was judged, where it is another than the run's; otherwise
        empty.
      hparams: what was changed of the run's hyperparameters for this evaluation; empty: nothing.
      decode: what was changed of the options with which the problem has its texts written; empty:
        nothing.
      parameters: numbers in the model's weights; None: not known.
      training_minutes: that the training up to the checkpoint took, evaluations included; None: the
        run directory does not tell.
      selection: what validation said of the checkpoint, as ``selection_of`` returns it, by which
        ut-report tells the best seed; None: it was not judged on validation data (a mean of
        checkpoints).
      headlines: the metric that says most of each method; empty in records of version 0.4.
      signatures: name -> the scorer's account of its settings, for those metrics that have one
        (BLEU).
      groups: the groups of the examples by the name that ends their metrics, each {"feature",
        "value", "examples"}; empty in records of version 0.4.
    """

    time: str
    problem: str
    hparams_set: str
    seed: int
    checkpoint: str
    step: int
    split: str
    metrics: dict[str, float]
    lengths: tuple[int, ...] = ()
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    data_note: str = ""
    test_problem: str = ""
    hparams: str = ""
    decode: str = ""
    parameters: int | None = None
    training_minutes: float | None = None
    selection: dict[str, Any] | None = None
    signatures: dict[str, str] = field(default_factory=dict)
    headlines: tuple[str, ...] = ()
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(plain(self), sort_keys=True, allow_nan=False)

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of one measurement: checkpoint, split, lengths, hyperparameters and options.
        Records with the same key replace each other.
        """
        place = self.checkpoint
        if self.checkpoint in ("best", "last") or self.checkpoint.isdecimal():
            place = ""
        return self.step, place, self.split, self.lengths, self.test_problem, self.used_with

    @property
    def used_with(self) -> str:
        """What was changed for the evaluation, hyperparameters and decoding options; empty:
        nothing.
        """
        return ",".join(filter(None, [self.hparams, self.decode]))


def now() -> str:
    """The time as records give it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append_record(output_dir: str | Path, record: Record) -> None:
    """Adds a record to a run directory.

    Raises:
      UserError: the file cannot be written.
    """
    path = Path(output_dir) / RECORDS_FILE
    with (
        file_errors(path, "change its permissions to keep a record", "written"),
        open_to_append(path) as file,
    ):
        last = read_bounded(path, MOST_LINES_BYTES).rpartition(b"\n")[2]
        file.seek(0, os.SEEK_END)
        if last and read_object(last) is None:
            file.truncate(file.tell() - len(last))
        elif last:
            file.write(b"\n")
        file.write(f"{sealed(record.to_json())}\n".encode())


def read_records(output_dir: str | Path) -> list[Record]:
    """The records of a run directory, the oldest first; none where ut-eval has not judged
    the run.

    Raises:
      UserError: the file cannot be read, or a line is no record; names file and line.
    """
    return read_typed(Path(output_dir) / RECORDS_FILE, Record, "record of ut-eval")


def latest(records: Iterable[Record]) -> list[Record]:
    """The last record of each thing that was measured, in the order in which they were
    measured last.
    """
    last: dict[tuple[Any, ...], Record] = {}
    for record in records:
        last.pop(record.key, None)
        last[record.key] = record
    return list(last.values())


def latest_of_best(records: Iterable[Record]) -> list[Record]:
    """As ``latest``, without what was measured of the best checkpoint before a training that went
    on found a better one.
    """
    measured = latest(records)
    last = {record.key[1:]: record for record in measured if record.checkpoint == "best"}
    return [
        record
        for record in measured
        if record.checkpoint != "best" or record is last[record.key[1:]]
    ]
