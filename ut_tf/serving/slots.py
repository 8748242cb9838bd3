"""Examples that take recurrent steps together and come and go on their own: continuous batching by
the signatures ``start`` and ``step`` of an export. Needs no TensorFlow.

How it is used::

    slots = Slots(start, step)
    slots.add(["first", "second"], {"inputs": [b"12__", b"3_1_"]})
    while slots.held:
        for key, outputs in slots.advance(): ...
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ut_tf.inference.batches import MOST_POSITIONS, trimmed
from ut_tf.serving.rest_messages import ERROR, WARNING, Columns, Outputs

START, STEP = "start", "step"
IDS, DONE, LENGTH = "ids", "done", "length"

Rows = dict[str, np.ndarray[Any, Any]]
"""Values of examples by name, [examples, ...]."""


class Slots:
    """Examples, each at its own step.

    Args:
      start: makes rows of the texts of some examples and of the length that their "ids", int32
        [examples, length], have at least.
      step: returns of rows those that change in a recurrent step, "done" bool [examples], and the
        answers, which hold for examples that are done.

    Fields:
      held: keys of the examples, in the order of their rows.
    """

    def __init__(self, start: Callable[[Columns, int], Rows], step: Callable[[Rows], Rows]) -> None:
        self.held: list[Any] = []
        self._start = start
        self._step = step
        self._rows: Rows = {}
        # Examples that are longer than those held, or too many beside them: they begin after these.
        self._later: tuple[list[Any], Rows] | None = None

    @property
    def keys(self) -> list[Any]:
        """The keys of all examples that have no answer yet."""
        return self.held + ([] if self._later is None else self._later[0])

    def room(self, most: int) -> int:
        """The examples that may be added, where at most `most` are held at once."""
        if not self.held:
            return min(most, MOST_POSITIONS)
        ids = self._rows[IDS]
        length, longest = int(ids.shape[1]), max(len(trimmed(ids.max(0))), 1)
        # Rows do not become shorter. When a long one has left, those held leave before others come.
        if self._later is not None or length > 2 * longest:
            return 0
        return max(max(min(most, MOST_POSITIONS // max(length, 1)), 1) - len(self.held), 0)

    def add(self, keys: Sequence[Any], columns: Columns) -> None:
        """Takes examples, of which each has a key; there must be room."""
        length = self._rows[IDS].shape[1] if self.held else 0
        rows = self._start(columns, length)
        if not self.held:
            self._begin(list(keys), rows)
        elif rows[IDS].shape[1] > length:
            self._later = list(keys), rows
        else:
            pairs = {name: (self._rows[name], values) for name, values in rows.items()}
            self._rows = {name: np.concatenate(pair) for name, pair in pairs.items()}
            self.held += keys

    def advance(self) -> list[tuple[Any, Outputs]]:
        """Takes one step; returns key and outputs [1, ...] of each example done, which leaves."""
        after = {**self._rows, **self._step(self._rows)}
        done = after.pop(DONE)
        answers = {name: v for name, v in after.items() if name not in self._rows}
        answers |= {name: after[name] for name in (ERROR, WARNING)}
        found = [
            (self.held[row], {name: values[row : row + 1] for name, values in answers.items()})
            for row in np.flatnonzero(done)
        ]
        self._rows = {name: after[name] for name in self._rows}
        self._keep(~done)
        return found

    def drop(self, is_given_up: Callable[[Any], bool]) -> None:
        """Leaves out the examples that nobody waits for any more, by their keys."""
        given_up = np.array([is_given_up(key) for key in self.held], bool)
        if given_up.any():
            self._keep(~given_up)

    def _begin(self, keys: list[Any], rows: Rows) -> None:
        """Holds as many examples as fit the memory; the others wait."""
        fit = max(MOST_POSITIONS // max(rows[IDS].shape[1], 1), 1)
        self.held, self._rows = keys[:fit], {name: values[:fit] for name, values in rows.items()}
        later = {name: values[fit:] for name, values in rows.items()}
        self._later = (keys[fit:], later) if keys[fit:] else None

    def _keep(self, kept: Any) -> None:
        self.held = [key for key, stays in zip(self.held, kept, strict=True) if stays]
        self._rows = {name: values[kept] for name, values in self._rows.items()}
        if not self.held and self._later is not None:
            self._begin(*self._later)
