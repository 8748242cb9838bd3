"""Word problems of the groups S5 and A5: the product of all elements so far, at every position
(arXiv 2404.08819, 2606.18206).

A symbol is a permutation of five things, of which S5 has 120 and A5 the 60 even ones; the product
of x and y first does y, then x. Trained on words of up to 32 elements and judged beyond. Difficulty
is the number of elements that a product is of, which are multiplied one after the other.
"""

import functools
import itertools
from typing import Literal, Unpack

import numpy as np
import numpy.typing as npt

from ut_tf.errors import UserError
from ut_tf.problems.reasoning.strings import NOTHING, Solved, Strings, StringSizes, StringTask

_THINGS = 5
# Letters, of which there are enough.
_FIRST_LETTER = 0x4E00


class GroupProducts(StringTask):
    """Words of group elements and their products so far, generated without end.

    Args:
      group: "s5" or "a5".
      max_size: the longest word of training; lengths are uniform from 1.
      name: the problem's name, for messages.
      **sizes: see ``StringSizes``.
    """

    group_by = None

    def __init__(
        self,
        group: Literal["s5", "a5"] = "s5",
        max_size: int = 32,
        *,
        name: str = "",
        **sizes: Unpack[StringSizes],
    ) -> None:
        if group not in ("s5", "a5"):
            raise UserError(f"`group`={group!r}: expected s5 or a5.")
        self.table = products(group)
        self.symbols = "".join(chr(_FIRST_LETTER + number) for number in range(len(self.table)))
        super().__init__(max_size, name or f"{group}_{max_size}", **sizes)

    def solve(self, strings: Strings) -> Solved:
        targets, product = np.empty_like(strings), np.zeros(len(strings), np.int64)
        for place in range(strings.shape[1]):
            product = self.table[product, np.maximum(strings[:, place], 0)]
            targets[:, place] = product
        numbers = np.broadcast_to(np.arange(1, strings.shape[1] + 1), strings.shape)
        return Solved(np.where(strings >= 0, targets, NOTHING), numbers)


def elements(group: str) -> list[tuple[int, ...]]:
    """The permutations of a group, "s5" or "a5", in lexical order, the identity first."""
    every = itertools.permutations(range(_THINGS))
    return [one for one in every if group == "s5" or _inversions(one) % 2 == 0]


@functools.cache
def products(group: str) -> npt.NDArray[np.int64]:
    """The number of the product of two elements, int64 [elements, elements]."""
    every = elements(group)
    numbers = {one: number for number, one in enumerate(every)}
    return np.array([[numbers[tuple(x[k] for k in y)] for y in every] for x in every])


def _inversions(order: tuple[int, ...]) -> int:
    return sum(a > b for a, b in itertools.combinations(order, 2))
