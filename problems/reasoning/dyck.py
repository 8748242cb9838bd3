"""Dyck words of two kinds of brackets: at every position what closes the innermost open bracket
(arXiv 2207.02098's relatives; Dyck-2 of bounded depth).

"([])" asks for ")]).": "." where nothing is open. Trained on words of up to 40 brackets, at most 8
deep, and judged beyond. Difficulty is one more than the number of
open brackets, which a stack holds.
"""

from typing import Unpack

import numpy as np

from ut_tf.data.arguments import at_least
from ut_tf.problems.reasoning.strings import NOTHING, Solved, Strings, StringSizes, StringTask

SYMBOLS = "([)]."
_KINDS = 2
_NONE = SYMBOLS.index(".")


class Dyck(StringTask):
    """Prefixes of Dyck words, generated without end.

    Args:
      max_size: the longest word of training; lengths are uniform from 1.
      max_depth: the most brackets that are open at once.
      name: the problem's name, for messages.
      **sizes: see ``StringSizes``.
    """

    symbols = SYMBOLS
    answers = SYMBOLS[_KINDS:]

    def __init__(
        self,
        max_size: int = 40,
        max_depth: int = 8,
        *,
        name: str = "",
        **sizes: Unpack[StringSizes],
    ) -> None:
        self.max_depth = at_least(1, "max_depth", max_depth)
        super().__init__(max_size, name or f"dyck_{max_depth}", **sizes)

    def draw(self, draws: np.random.Generator, sizes: Strings, width: int, split: str) -> Strings:
        opens = draws.integers(0, 2, [len(sizes), width], bool)
        kinds = draws.integers(0, _KINDS, [len(sizes), width])
        rows, depth = np.arange(len(sizes)), np.zeros(len(sizes), np.int64)
        stack = np.zeros([len(sizes), self.max_depth + 1], np.int64)
        strings = np.empty([len(sizes), width], np.int64)
        for place in range(width):
            opening = (opens[:, place] | (depth == 0)) & (depth < self.max_depth)
            innermost = stack[rows, np.maximum(depth - 1, 0)]
            strings[:, place] = np.where(opening, kinds[:, place], innermost + _KINDS)
            stack[rows, depth] = np.where(opening, kinds[:, place], stack[rows, depth])
            depth += np.where(opening, 1, -1)
        return np.where(np.arange(width) < sizes[:, None], strings, NOTHING)

    def solve(self, strings: Strings) -> Solved:
        rows, depth = np.arange(len(strings)), np.zeros(len(strings), np.int64)
        stack = np.zeros([len(strings), strings.shape[1] + 1], np.int64)
        targets, depths = np.empty_like(strings), np.empty_like(strings)
        for place in range(strings.shape[1]):
            symbol = strings[:, place]
            opening = (symbol >= 0) & (symbol < _KINDS)
            stack[rows, depth] = np.where(opening, symbol, stack[rows, depth])
            depth = np.maximum(depth + np.where(opening, 1, -1), 0)
            innermost = stack[rows, np.maximum(depth - 1, 0)] + _KINDS
            targets[:, place] = np.where(depth > 0, innermost, _NONE)
            depths[:, place] = depth + 1
        return Solved(np.where(strings >= 0, targets, NOTHING), depths)
