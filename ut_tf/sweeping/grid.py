"""The grid of a sweep: its problems, sets, hyperparameters and seeds, and how far each combination
has come.

::

    expand_names(["babi_qa_task{1..20}_10k"])        # babi_qa_task1_10k ... babi_qa_task20_10k
    expand_numbers(["1..3,7"])                       # 1, 2, 3, 7
    expand_points("dropout=0.1+0.3,num_steps=4")     # dropout=0.1,num_steps=4 and dropout=0.3,...
    expand_points("/supervision=each,norm=sandwich")  # the set as it is, and with both
    cells = make_cells(problems, hparams_sets, seeds, points)
    Progress(folder).reached(cells[0], flags, [])    # "finished", "trained" or None

A cell is a run directory, named after its problem, set, point and seed. ``sweep.json`` holds the
flags that each cell was trained and evaluated with, so that the same command passes over what is
finished, and another adds to it.
"""

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from ut_tf.config.overrides import parse_assignments
from ut_tf.errors import UserError, file_errors
from ut_tf.storage.files import read_bounded, write_text
from ut_tf.storage.layout import SWEEP_FILE
from ut_tf.storage.locks import exclusive

_FORMAT_VERSION = 1
_LOCK_FILE = ".sweep.lock"
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST = 100_000
# The sign in 1e+5 stands between no two values.
_BETWEEN = re.compile(r"(?<![0-9.][eE])\+")
_ASSIGNMENT = re.compile(r"[\w.]+=[\w.+-]+")
State = Literal["trained", "finished", "failed", "stopped", "pruned"]


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Args:
      problem, hparams_set, seed: of the run.
      point: its hyperparameters besides those of the set, "dropout=0.1,num_steps=4".
    """

    problem: str
    hparams_set: str
    seed: int
    point: str = ""

    @property
    def name(self) -> str:
        """Its run directory, below the sweep's."""
        point = [self.point.replace(",", "-")] if self.point else []
        return "-".join([self.problem, self.hparams_set, *point, f"seed{self.seed}"])


def make_cells(
    problems: Iterable[str],
    hparams_sets: Iterable[str],
    seeds: Iterable[int],
    points: Iterable[str] = ("",),
) -> list[Cell]:
    """Every combination once: all others with the first seed, then with the second."""
    cells = [
        Cell(problem, name, seed, point)
        for seed, problem, name, point in itertools.product(seeds, problems, hparams_sets, points)
    ]
    return list(dict.fromkeys(cells))


def expand_points(text: str) -> list[str]:
    """Every combination of the values in "name=value+value,name=value", for each of the grids
    between which a / stands; an empty one is the set as it is.

    Raises:
      ValueError: a part is no such assignment, or a value is none that can name a folder.
    """
    return list(dict.fromkeys(point for grid in text.split("/") for point in expand_grid(grid)))


def expand_grid(text: str) -> list[str]:
    """The combinations of one grid, as ``expand_points``."""
    assignments, mistakes = parse_assignments(text)
    if mistakes:
        raise ValueError(mistakes[0])
    choices = []
    for name, values in assignments.items():
        choices.append([f"{name}={value}" for value in _BETWEEN.split(values)])
        if not all(_ASSIGNMENT.fullmatch(choice) for choice in choices[-1]):
            raise ValueError(
                f"{name}={values} is no name with values of letters, digits, _, . and -"
            )
    return [",".join(point) for point in itertools.product(*choices)]


def expand_names(words: Sequence[str]) -> list[str]:
    """The names in words such as "a,b" and "task{1..3}_{x,y}", each once.

    Raises:
      ValueError: a brace without its other half, or an empty choice.
    """
    return list(
        dict.fromkeys(name for word in words for part in _split(word) for name in _expanded(part))
    )


def expand_numbers(words: Sequence[str]) -> list[int]:
    """The numbers in words such as "1,5", "1..10" and "{1..10}", each once.

    Raises:
      ValueError: a part is neither a whole number nor a range of them.
    """
    numbers: list[int] = []
    for part in (part for word in words for name in _split(word) for part in _expanded(name)):
        if _RANGE.fullmatch(part):
            numbers += map(int, _range(part))
        elif part.isdecimal():
            numbers.append(int(part))
        else:
            raise ValueError(f"{part!r} is no whole number and no range")
    return list(dict.fromkeys(numbers))


def _split(word: str) -> list[str]:
    """The parts between the commas that stand outside braces."""
    parts, depth, begin = [], 0, 0
    for place, sign in enumerate(word):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth not in (0, 1):
            raise ValueError(f"a brace of {word!r} has no other half")
        if sign == "," and not depth:
            parts.append(word[begin:place])
            begin = place + 1
    if depth:
        raise ValueError(f"a brace of {word!r} has no other half")
    parts.append(word[begin:])
    return [part.strip() for part in parts if part.strip()]


def _expanded(pattern: str) -> Iterator[str]:
    pieces = re.split(r"\{(.*?)\}", pattern)
    choices = [
        [piece] if number % 2 == 0 else _choices(piece, pattern)
        for number, piece in enumerate(pieces)
    ]
    return ("".join(parts) for parts in itertools.product(*choices))


def _choices(text: str, pattern: str) -> list[str]:
    if _RANGE.fullmatch(text):
        return _range(text)
    choices = [choice.strip() for choice in text.split(",")]
    if not all(choices):
        raise ValueError(f"{pattern!r} has an empty choice between its braces")
    return choices


def _range(text: str) -> list[str]:
    first, last = map(int, text.split(".."))
    if abs(last - first) >= _MOST:
        raise ValueError(f"{text} are more than {_MOST} numbers")
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)]


@dataclass
class Entry:
    """The progress of a cell.

    Args:
      problem, hparams_set, seed, point: as in ``Cell``.
      state: how far it came.
      trainer_flags, eval_flags: with which it did.
      minutes: that its processes took, over all calls.
    """

    problem: str
    hparams_set: str
    seed: int
    state: State
    trainer_flags: list[str]
    eval_flags: list[str]
    minutes: float = 0.0
    point: str = ""


class Progress:
    """The file sweep.json in a sweep's folder, which several processes may write.

    Raises:
      UserError: the file is there but cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / SWEEP_FILE
        self.read()

    def read(self) -> None:
        """Reads what other processes may have written meanwhile."""
        self._entries = _read(self._path)

    def reached(
        self, cell: Cell, trainer_flags: Sequence[str], eval_flags: Sequence[str]
    ) -> State | None:
        """How far a cell came with just these flags: "trained", "finished", or None where it must
        be trained (further).
        """
        entry = self._entries.get(cell.name)
        if (
            entry is None
            or entry.state not in ("trained", "finished")
            or entry.trainer_flags != list(trainer_flags)
        ):
            return None
        if entry.state == "finished" and entry.eval_flags == list(eval_flags):
            return "finished"
        return "trained"

    def note(
        self,
        cell: Cell,
        state: State,
        trainer_flags: Sequence[str],
        eval_flags: Sequence[str],
        minutes: float,
    ) -> None:
        """Writes how far a cell came; `minutes` are added to those of earlier calls.

        Raises:
          UserError: the file cannot be written.
        """
        with contextlib.ExitStack() as stack:
            # Some networks have no locks.
            with contextlib.suppress(OSError):
                stack.enter_context(exclusive(self._path.with_name(_LOCK_FILE)))
            self.read()
            before = self._entries.get(cell.name)
            total = minutes + (before.minutes if before else 0.0)
            flags = [*trainer_flags], [*eval_flags]
            self._entries[cell.name] = Entry(
                cell.problem, cell.hparams_set, cell.seed, state, *flags, total, cell.point
            )
            self._write()

    def _write(self) -> None:
        values = {
            "format_version": _FORMAT_VERSION,
            "cells": {name: asdict(done) for name, done in self._entries.items()},
        }
        with file_errors(self._path, "the same command goes on from here", "written"):
            write_text(self._path, json.dumps(values, indent=1) + "\n")


def _read(path: Path) -> dict[str, Entry]:
    try:
        values: dict[str, Any] = json.loads(read_bounded(path))
        if values["format_version"] != _FORMAT_VERSION:
            raise ValueError(
                f"format version {values['format_version']}, expected {_FORMAT_VERSION}"
            )
        return {name: _entry(entry) for name, entry in values["cells"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UserError(
            f"{path} is no file of this ut-sweep ({what}): restore it, or remove it to look at"
            " every run again."
        ) from error


def _entry(values: dict[str, Any]) -> Entry:
    known = {field.name for field in fields(Entry)}
    # Version 0.5 noted the time of a failure, too.
    return Entry(**{name: value for name, value in values.items() if name in known})
