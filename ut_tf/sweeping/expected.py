"""How long the runs of a sweep take: as the user says, or as earlier runs took.

::

    expected = ExpectedMinutes({"babi_qa_task3_10k": 30.0}, measured)
    expected.of(cell)                   # 30.0; None where nothing is known

::

    parse_minutes("babi_qa_task3_10k=30,ut_act_babi=8")
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from ut_tf.sweeping.grid import Cell


@dataclass(frozen=True)
class ExpectedMinutes:
    """The minutes of a cell, from its beginning to its end.

    Args:
      told: by the name of a problem, of a set, or of both with "-" between; the most particular
        name counts.
      measured: of cells that have ended.
    """

    told: Mapping[str, float]
    measured: Mapping[Cell, float]

    def of(self, cell: Cell) -> float | None:
        """What the user says; otherwise the mean of other seeds of the same problem and set, then
        of the same problem, then of the same set; None: nothing is known.
        """
        names = (f"{cell.problem}-{cell.hparams_set}", cell.problem, cell.hparams_set)
        for name in names:
            if name in self.told:
                return self.told[name]
        alike = [
            [minutes for other, minutes in self.measured.items() if _name(other, part) == name]
            for part, name in enumerate(names)
        ]
        return next((statistics.fmean(minutes) for minutes in alike if minutes), None)


def _name(cell: Cell, part: int) -> str:
    return (f"{cell.problem}-{cell.hparams_set}", cell.problem, cell.hparams_set)[part]


def parse_minutes(text: str) -> dict[str, float]:
    """The minutes in "name=number,name=number".

    Raises:
      ValueError: a part is no name with a number of minutes.
    """
    minutes: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            minutes[name] = float(number)
        except ValueError:
            raise ValueError(f"{part!r} is no name with a number") from None
        if not name or not math.isfinite(minutes[name]) or minutes[name] < 0:
            raise ValueError(f"{part!r} is no name with a number of minutes")
    return minutes
