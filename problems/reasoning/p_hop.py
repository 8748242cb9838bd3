"""p-hop induction: hops from a letter back to its last occurrence and on to the letter behind it
(arXiv 2402.09268, 2502.17416).

"abcab>>" begins at the last letter, b. A hop goes to its previous occurrence and gives the letter
that follows it: the first ">" asks for one hop, c; the second for two, from that c on. Trained on
up to 4 hops in 64 letters and judged on 8. Difficulty is the number of hops.
"""

from typing import ClassVar, Unpack

import numpy as np

from ut_tf.data.arguments import at_least
from ut_tf.problems.reasoning.codec import Places, places_of
from ut_tf.problems.reasoning.strings import NOTHING, Solved, Strings, StringSizes, StringTask

LETTERS = "abcd"
HOP = ">"
_HOP_NUMBER = len(LETTERS)


class PHop(StringTask):
    """Letters and hops through them, generated without end.

    Args:
      max_size: the most hops of training; their number is uniform from 1.
      letters: in a string, drawn anew where the hops of the string do not all end in it, or where
        the last two are the same, so that a hop would stay.
      name: the problem's name, for messages.
      **sizes: see ``StringSizes``.
    """

    symbols = LETTERS + HOP
    answers = LETTERS
    size_word = "hops"
    unit = "hop"
    beyond = 2
    argument_defaults: ClassVar[StringSizes] = {
        **StringTask.argument_defaults,
        "validation_examples": 500,
        "test_examples": 1000,
    }

    def __init__(
        self, max_size: int = 4, letters: int = 64, *, name: str = "", **sizes: Unpack[StringSizes]
    ) -> None:
        self.letters = at_least(8, "letters", letters)
        sizes["validation_size"] = sizes.get("validation_size") or max_size + 2
        super().__init__(max_size, name or "p_hop", **sizes)

    def draw(self, draws: np.random.Generator, sizes: Strings, width: int, split: str) -> Strings:
        letters = draws.integers(0, len(LETTERS), [len(sizes), self.letters])
        while True:
            # A hop from "aa" ends where it began.
            stays = letters[:, -1] == letters[:, -2]
            lacking = np.flatnonzero(stays | (self.hops(letters, width) < 0).any(1))
            if not len(lacking):
                break
            letters[lacking] = draws.integers(0, len(LETTERS), [len(lacking), self.letters])
        hops = np.where(np.arange(width) < sizes[:, None], _HOP_NUMBER, NOTHING)
        return np.concatenate([letters, hops], 1)

    def solve(self, strings: Strings) -> Solved:
        most = strings.shape[1] - self.letters
        found = self.hops(strings[:, : self.letters], most)
        found = np.where(strings[:, self.letters :] >= 0, found, NOTHING)
        nothing = np.full([len(strings), self.letters], NOTHING)
        numbers = np.concatenate([0 * nothing, np.tile(np.arange(1, most + 1), [len(found), 1])], 1)
        return Solved(np.concatenate([nothing, found], 1), numbers)

    def places(self) -> Places:
        """Each hop."""
        return places_of(HOP, self.symbols, f"'{HOP}' for each hop")

    @staticmethod
    def hops(letters: Strings, most: int) -> Strings:
        """Returns the letter after each of `most` hops, [examples, most]; NOTHING where a hop finds
        no earlier occurrence.
        """
        rows = np.arange(len(letters))
        places = np.arange(letters.shape[1])
        place = np.full(len(letters), letters.shape[1] - 1)
        found = np.full([len(letters), most], NOTHING)
        ended = np.zeros(len(letters), bool)
        for hop in range(most):
            same = (letters == letters[rows, place][:, None]) & (places < place[:, None])
            ended |= ~same.any(1)
            place = np.where(ended, 0, letters.shape[1] - np.argmax(same[:, ::-1], 1))
            found[:, hop] = np.where(ended, NOTHING, letters[rows, place])
        return found
