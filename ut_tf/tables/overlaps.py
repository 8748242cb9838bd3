"""What a run knows of its test from training: ``overlap.json`` beside the records.

::

    overlaps = read_overlaps(Path("results"))
    overlap = overlaps.get(Overlap.key_of(record))
    overlap.total                               # (2853, 20000)
    overlap.most_of_others(5.1)                 # 5.9: percent of the other questions, at most

``benchmarks/overlap.py`` writes the file. Where a run's answers are not kept, the error on the
other questions is not known; but it cannot be more than all its errors among them.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from ut_tf.errors import UserError
from ut_tf.storage.files import read_bounded
from ut_tf.tables.record import ResultRecord

OVERLAPS_FILE = "overlap.json"
EXCHANGES = "exchanges of training questions"
SIMULATED = "among the simulated training stories"
_DATA = ("problem", "problem_args", "data_version", "test_problem")
_TEST = "test"
Counts = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Overlap:
    """Test questions that are known from training.

    Args:
      data: of the run: problem, arguments, data version, test problem.
      what: what known questions are, EXCHANGES or SIMULATED.
      known: for a split, how many questions of each task are known, and how many there are.
    """

    data: Mapping[str, Any]
    what: str
    known: Mapping[str, Counts]

    @classmethod
    def of(cls, record: ResultRecord, what: str, known: Mapping[str, Counts]) -> Self:
        """The overlap of a record's data."""
        return cls({name: getattr(record, name) for name in _DATA}, what, known)

    @staticmethod
    def key_of(record: ResultRecord) -> tuple[str, ...]:
        """What the overlap depends on."""
        return _key({name: getattr(record, name) for name in _DATA})

    @property
    def key(self) -> tuple[str, ...]:
        """As ``key_of`` of its records."""
        return _key(self.data)

    @property
    def total(self) -> tuple[int, int]:
        """How many test questions are known, and how many there are."""
        counts = self.known[_TEST].values()
        return sum(known for known, _ in counts), sum(every for _, every in counts)

    @property
    def has_tasks(self) -> bool:
        """Whether the questions are of several tasks."""
        return len(self.known[_TEST]) > 1

    def most_of_others(self, error: float) -> float | None:
        """The greatest error on the questions that are not known, in percent; None: all are known.
        Of several tasks the share of wrong answers among the other questions of all of them: their
        mean error, task by task, may be greater.

        Args:
          error: on all questions, in percent; of tasks that have equally many the mean.
        """
        known, every = self.total
        return min(100.0, error * every / (every - known)) if known < every else None

    def sentence(self) -> str:
        """The counts in words, by task where there are several."""
        parts = " and ".join(_counts_text(split, counts) for split, counts in self.known.items())
        others = "; the error on the others was not measured" if self.total[0] else ""
        return f"{parts} are {self.what}{others}"

    def to_json(self) -> dict[str, Any]:
        """What ``read_overlaps`` reads."""
        return {**self.data, "what": self.what, "known": self.known}


Overlaps = Mapping[tuple[str, ...], Overlap]
"""By their keys."""
NO_OVERLAPS: Overlaps = MappingProxyType({})


def read_overlaps(folder: Path) -> dict[tuple[str, ...], Overlap]:
    """The overlaps that ``overlap.json`` in a folder has, by their keys; none where it is missing.

    Raises:
      UserError: the file is not what ``benchmarks/overlap.py`` writes.
    """
    path = folder / OVERLAPS_FILE
    try:
        made = [_overlap(values) for values in json.loads(read_bounded(path))]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{path} cannot be read ({error}): have benchmarks/overlap.py write it anew."
        ) from error
    return {overlap.key: overlap for overlap in made}


def _overlap(values: Mapping[str, Any]) -> Overlap:
    known = {
        split: {int(task): (int(count), int(every)) for task, (count, every) in counts.items()}
        for split, counts in values["known"].items()
    }
    known[_TEST]  # A KeyError where it is missing.
    return Overlap({name: values[name] for name in _DATA}, str(values["what"]), known)


def _counts_text(split: str, counts: Counts) -> str:
    known, every = (sum(column) for column in zip(*counts.values(), strict=True))
    noun = "test questions" if split == _TEST else f"questions for {split}"
    tasks = [f"{number:,} in task {task}" for task, (number, _) in counts.items() if number]
    by_task = f" ({', '.join(tasks)})" if len(counts) > 1 and tasks else ""
    return f"{known:,} of {every:,} {noun}{by_task}"


def known_text(overlaps: Collection[Overlap]) -> str:
    """How many test questions are known, by what they are, and of one overlap how many there are;
    empty without overlaps.
    """
    known = Counter[str]()
    for overlap in overlaps:
        known[overlap.what] += overlap.total[0]
    every = (
        "".join(f" of {overlap.total[1]:,}" for overlap in overlaps) if len(overlaps) == 1 else ""
    )
    return ", ".join(f"{count:,}{every} test questions are {what}" for what, count in known.items())


def _key(data: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(json.dumps(data[name], sort_keys=True) for name in _DATA)
