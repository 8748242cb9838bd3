"""The kept records of results: a file of JSON lines, one for each figure of a finished run.

::

    keep_records(Path("results/babi.jsonl"), records)      # the same run and figure is replaced
    for record in read_records([Path("results/babi.jsonl")]):
        record.table, record.metric, record.value, record.interval, record.command

Unlike the evaluations in a run directory, a record says all that a reader needs to judge a figure
and to measure it again: it is kept when the run directory is gone. Facts that are not known are
null.
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ut_tf.config.overrides import parse_assignments
from ut_tf.errors import UserError, file_errors
from ut_tf.storage.files import MOST_LINES_BYTES, read_bounded, write_text
from ut_tf.storage.json_lines import read_object
from ut_tf.storage.layout import LOCK_FILE
from ut_tf.storage.locks import exclusive
from ut_tf.storage.typed_lines import typed

# Overrides that say how often, and leave the result as it is.
_NO_RECIPE = ("eval_frequency", "keep_checkpoint_max")


@dataclass(frozen=True, kw_only=True)
class ResultRecord:
    """A figure of a finished run.

    Args:
      table: name of the table that it belongs to.
      row: what the table's row calls the system.
      metric: name of the figure, as ut-eval has it.
      value: the figure.
      interval: (low, high) at 95 % confidence; None: it has none.
      examples: that were judged.
      split: that they came from.
      test_problem: the problem that they are of, where it is another than the run's.
      problem, problem_args: that the run was trained on; files by their names alone.
      hparams_set, overrides: the hyperparameters.
      used_with: hyperparameters and decoding options that were changed for the evaluation.
      train_steps: updates of the training, where they are other than those of the set with its
        overrides; None: they are not.
      warm_start: name of the run directory that the first weights came from; empty: none.
      seed: of the training.
      command: trains the run.
      evaluation: the command that measures the figure.
      step: of the checkpoint.
      parameters: numbers in the weights.
      minutes: that training to the checkpoint took, validation included.
      processor_minutes: of processor time likewise.
      total_minutes: that the whole training took.
      processor: {"model", "flags", "cores", "devices"}; of the last process begun before it.
      commit: of the checkout that it ran; None: ut_tf was installed, or nobody noted it.
      version: of ut_tf.
      versions: of tensorflow, keras and python.
      selection: what chose the checkpoint, {"metric", "direction", "value", "loss"} on validation
        data.
      test_read: when figures on this split were read in the same use (`used_with`), each time.
      paper: the figure of the publication, as printed; None: it has none.
      note: in a few words, what is other than in the published benchmark.
      curve: file of the learning curve, beside the records.
      others: the figure on the test questions that are not known from training
        (``ut_tf.tables.overlaps``); None: nobody measured it.
      data_version: of the data that its problem made (``RunConfig``).
    """

    table: str
    row: str
    metric: str
    value: float
    problem: str
    hparams_set: str
    version: str
    interval: tuple[float, float] | None = None
    examples: int | None = None
    split: str = "test"
    test_problem: str = ""
    problem_args: dict[str, Any] = field(default_factory=dict)
    overrides: str = ""
    used_with: str = ""
    train_steps: int | None = None
    warm_start: str = ""
    seed: int | None = 0
    command: str | None = None
    evaluation: str | None = None
    step: int | None = None
    parameters: int | None = None
    minutes: float | None = None
    processor_minutes: float | None = None
    total_minutes: float | None = None
    processor: dict[str, Any] | None = None
    commit: str | None = None
    versions: dict[str, str] | None = None
    selection: dict[str, Any] | None = None
    test_read: tuple[str, ...] | None = None
    paper: str | None = None
    note: str = ""
    curve: str | None = None
    others: float | None = None
    data_version: int = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """The run and the figure; a record with the same key replaces another."""
        return (*self.run_key, self.table, self.row, self.metric, self.split, self.test_problem)

    @property
    def run_key(self) -> tuple[Any, ...]:
        """The run, and how it was used."""
        recipe = (self.hparams_set, self.overrides, self.used_with, *self.training)
        return (self.problem, self.arguments, *recipe, self.seed)

    @property
    def arguments(self) -> str:
        """The arguments of the problem as one text."""
        return json.dumps(self.problem_args, sort_keys=True)

    @property
    def training(self) -> tuple[int | None, str]:
        """How the run was trained beyond its set and overrides: updates and warm start."""
        return (self.train_steps, self.warm_start)

    @property
    def recipe_key(self) -> tuple[Any, ...]:
        """What the seeds of a line have in common."""
        return (self.row, self.recipe, self.training, self.arguments)

    @property
    def recipe(self) -> str:
        """The set with what is other than in it."""
        used = [f"used with {self.used_with}"] if self.used_with else []
        return ", ".join([self.trained_recipe, *used])

    @property
    def trained_recipe(self) -> str:
        """The set with what is other than in it, in training alone."""
        values, _ = parse_assignments(self.overrides)
        changed = [f"{name}={value}" for name, value in values.items() if name not in _NO_RECIPE]
        return ", ".join([self.hparams_set, *changed])

    def to_json(self) -> str:
        """The record as one line of JSON; ``from_dict`` reads it."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The record of a line.

        Raises:
          ValueError: a field is missing, unknown or of a wrong type.
        """
        names = {item.name for item in dataclasses.fields(cls)}
        for name in values:
            if name not in names:
                raise ValueError(f"it has an unknown {name!r}")
        record: Self = typed(values, cls)
        if not all(map(math.isfinite, (record.value, *(record.interval or ())))):
            raise ValueError("value or interval is not finite")
        return record


def read_records(files: Iterable[Path]) -> list[ResultRecord]:
    """The records in files, in their order.

    Raises:
      UserError: a file cannot be read, or a line is no record; names file and line.
    """
    records: list[ResultRecord] = []
    for path in files:
        with file_errors(path, "name a file of kept records"):
            lines = read_bounded(path, MOST_LINES_BYTES).split(b"\n")
        records += [
            _record(line, path, number) for number, line in enumerate(lines, 1) if line.strip()
        ]
    return records


def keep_records(path: Path, records: Sequence[ResultRecord]) -> int:
    """Adds records to a file, which is whole at any moment; one of the same run and figure stands
    in the place of the earlier one. Returns how many were replaced.

    Raises:
      UserError: the file cannot be read or written.
    """
    with file_errors(path, "name another file", "written"), exclusive(path.parent / LOCK_FILE):
        before = read_records([path]) if path.exists() else []
        kept = {record.key: record for record in before}
        replaced = sum(record.key in kept for record in records)
        kept |= {record.key: record for record in records}
        write_text(path, "".join(f"{record.to_json()}\n" for record in kept.values()))
        return replaced


def _record(line: bytes, path: Path, number: int) -> ResultRecord:
    try:
        values = read_object(line)
        if values is None:
            raise ValueError("it is no JSON object in UTF-8")
        return ResultRecord.from_dict(values)
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"{path}:{number} is no record of a result ({error}): remove that line, and record the"
            " run again."
        ) from error
