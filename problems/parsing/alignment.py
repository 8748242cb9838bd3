"""Which words of a sentence the words of a written tree stand for.

How it is used::

    align(["the", "cat", "cat", "sat"], ["the", "cat", "sat", "."])     # [[0], [1], [], [2]]

How it works: the alignment with the fewest words written too many or left out, and words in
another's place. A written word that is too many stands for none. A word left out before one that is
written stands with it; words after the last one that is written stand with none. XX stands for any
word; so does a kind of words such as ``<A>``, where there is no better way.
"""

from collections.abc import Sequence

LEAF = "XX"
_GAP, _OTHER_WORD, _KIND = 1.0, 1.5, 0.5


def align(written: Sequence[str], words: Sequence[str]) -> list[list[int]]:
    """For each of the `written` leaves the places, in order, of the `words` that it stands for."""
    costs = _costs(written, words)
    stands_for: list[list[int]] = [[] for _ in written]
    row, column = len(written), len(words)
    while row and column:
        here = costs[row][column]
        # Of equally good alignments the one that goes wrong last: what is too many or left out is
        # looked for from the end.
        if here == costs[row][column - 1] + _GAP:
            column -= 1
            later = next(
                (words_of_symbol for words_of_symbol in stands_for[row:] if words_of_symbol), None
            )
            if later is not None:
                later.insert(0, column)
        elif here == costs[row - 1][column] + _GAP:
            row -= 1
        else:
            row, column = row - 1, column - 1
            stands_for[row].insert(0, column)
    first = next((words_of_symbol for words_of_symbol in stands_for if words_of_symbol), None)
    if first is not None:
        first[:0] = range(column)
    return stands_for


def _costs(written: Sequence[str], words: Sequence[str]) -> list[list[float]]:
    """Returns [written + 1, words + 1]: the least cost of aligning the first so many of each."""
    costs = [[_GAP * column for column in range(len(words) + 1)]]
    for row, leaf in enumerate(written, start=1):
        before = costs[-1]
        line = [_GAP * row]
        for column, word in enumerate(words, start=1):
            line.append(
                min(
                    before[column - 1] + _difference(leaf, word),
                    before[column] + _GAP,
                    line[-1] + _GAP,
                )
            )
        costs.append(line)
    return costs


def _difference(leaf: str, word: str) -> float:
    if leaf in (word, LEAF):
        return 0.0
    return _KIND if leaf[:1] == "<" and leaf[-1:] == ">" else _OTHER_WORD
