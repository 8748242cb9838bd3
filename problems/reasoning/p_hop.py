"""p-hop induction: hops from a letter back to its last occurrence and on to the letter behind it
(arXiv 2402.09268, 2502.17416).

"abcab>>" begins at the last letter, b. A hop goes to its previous occurrence and gives the letter
that follows it: the first ">" asks for one hop, c; the second for two, from that c on. Trained on
up to 4 hops in 64 letters and judged on 8. Difficulty is the number of hops.
"""

from typing import ClassVar, Unpack

import numpy as np

from ut_tf.data.arguments import at_least
from ut_tf.errors import UserError
from ut_tf.problems.reasoning.codec import Places, places_of
from ut_tf.problems.reasoning.strings import NOTHING, Solved, Strings, StringSizes, StringTask

LETTERS = "abcd"
HOP = ">"
_HOP_NUMBER = len(LETTERS)
# Strings drawn in a row of which none fits: hardly any has so many hops.
_MOST_IN_VAIN = 1_000_000


class PHop(StringTask):
    """Letters and hops through them, generated without end.

    Args:
      max_size: the most hops of training; their number is uniform from `min_size`.
      letters: in a string, drawn anew where the hops of the string do not all end in it, or where
        the last two are the same, so that a hop would stay.
      min_size: the fewest hops of training.
      min_letters: the fewest letters of training, their number uniform up to `letters`, so that
        hops end at every position; 0: always `letters`.
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
        self,
        max_size: int = 4,
        letters: int = 64,
        min_size: int = 1,
        min_letters: int = 0,
        *,
        name: str = "",
        **sizes: Unpack[StringSizes],
    ) -> None:
        self.letters = at_least(8, "letters", letters)
        sizes["validation_size"] = sizes.get("validation_size") or max_size + 2
        super().__init__(max_size, name or "p_hop", **sizes)
        self.fewest = _fewest("min_size", at_least(1, "min_size", min_size), max_size)
        fewest_letters = at_least(8, "min_letters", min_letters or letters)
        self.min_letters = _fewest("min_letters", fewest_letters, letters)

    def sizes(self, draws: np.random.Generator, count: int) -> Strings:
        return draws.integers(self.fewest, self.max_size + 1, count)

    def draw(self, draws: np.random.Generator, sizes: Strings, width: int, split: str) -> Strings:
        count, most = len(sizes), self.letters
        letters = draws.integers(0, len(LETTERS), [count, most])
        fewest = self.min_letters if split == "train" else most
        # Nothing is drawn for strings of one length.
        missing = draws.integers(0, most - fewest + 1, count) if fewest < most else 0 * sizes
        lacking, in_vain = np.arange(count), 0
        while len(lacking):
            letters[np.arange(most) < missing[:, None]] = NOTHING
            drawn = letters[lacking]
            # A hop from "aa" ends where it began.
            unfit = (drawn[:, -1] == drawn[:, -2]) | (self.hops(drawn, width) < 0).any(1)
            in_vain = in_vain + len(lacking) if unfit.all() else 0
            if in_vain > _MOST_IN_VAIN:
                name = "min_letters" if fewest < most else "letters"
                raise UserError(
                    f"`{name}`={fewest}: {width} hops hardly ever end in so few letters; expected"
                    " more letters or fewer hops."
                )
            lacking = lacking[unfit]
            letters[lacking] = draws.integers(0, len(LETTERS), [len(lacking), most])
        hops = np.where(np.arange(width) < sizes[:, None], _HOP_NUMBER, NOTHING)
        return _from_the_start(np.concatenate([letters, hops], 1), missing)

    def solve(self, strings: Strings) -> Solved:
        is_hop = strings == _HOP_NUMBER
        missing = self.letters - ((strings >= 0) & ~is_hop).sum(1)
        numbers = np.cumsum(is_hop, 1) * is_hop
        letters = _from_the_start(strings, -missing)[:, : self.letters]
        found = self.hops(letters, int(numbers.max()))
        targets = np.take_along_axis(found, np.maximum(numbers - 1, 0), 1)
        return Solved(np.where(is_hop, targets, NOTHING), numbers)

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


def _fewest(argument: str, value: int, most: int) -> int:
    if value > most:
        raise UserError(f"`{argument}`={value}: expected at most {most}.")
    return value


def _from_the_start(strings: Strings, missing: Strings) -> Strings:
    """Moves each row [length] left by what it is missing, with NOTHING behind; right where that is
    negative.
    """
    places = np.arange(strings.shape[1]) + missing[:, None]
    moved = np.take_along_axis(strings, np.clip(places, 0, strings.shape[1] - 1), 1)
    return np.where((places >= 0) & (places < strings.shape[1]), moved, NOTHING)
