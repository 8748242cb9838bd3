"""Lines of a text that is too large for the memory: counted, held out, sampled and encoded as they
are read.

How it is used::

    text = LargeText(paths, text_size(paths), holds_out=True)
    text.begin(folder)
    model = train_subwords(text.sample(250_000_000), 8000)
    counts = text.encode(folder, vocab_file)            # train-00000.npz and others

Every pass reads the files again. A stopped preparation is continued: what shards are there stays.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ut_tf.data.corpus.encoding import encode_split, sample_items, usable_cores
from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.data.split_of import shared_lines
from ut_tf.data.text.subwords import SPACE_MARK
from ut_tf.errors import UserError, counted
from ut_tf.notices import warn
from ut_tf.storage.files import write_text

# So many stretches of lines are held out for validation, but one line of fifty at most.
_HELD_OUT_STRETCHES, _HELD_OUT_LINES = 20, 100
_LEAST_TRAINED = 50
# Characters of a shard, about, and the most lines.
_CHARACTERS_OF_A_SHARD, _LINES_OF_A_SHARD = 5_000_000, 50_000
_FEWER = "give the command fewer of the processor's cores (`taskset -c 0` before it: one)"
# Of the plan of a preparation; another one is not continued.
_FORMAT = 1


class TextSize(NamedTuple):
    """The numbers of lines and characters of a text, without its empty lines, how many of these
    lines are indented or have runs of blanks, and how many have a "\u2581".
    """

    lines: int
    characters: int
    spaced: int = 0
    marked: int = 0


def lines_of(files: Sequence[Path], keep_blanks: bool = False) -> Iterator[str]:
    """Yields the lines that are not empty, without blanks around them.

    Args:
      files: of the text.
      keep_blanks: whether the blanks around them are kept.

    Raises:
      UserError: a file cannot be read, is not UTF-8, or has no such line; names file and line.
    """
    for path in files:
        if not path.is_file():
            raise UserError(f"{path} is no file: expected plain text.")
        is_empty = True
        for line in read_lines(path):
            stripped = line.strip()
            if stripped:
                is_empty = False
                yield line if keep_blanks else stripped
        if is_empty:
            raise UserError(f"{path} has no line that is not empty: expected plain text.")


def text_size(files: Sequence[Path]) -> TextSize:
    """The size of a text; raises as ``lines_of``."""
    lines = characters = spaced = marked = 0
    for line in lines_of(files, keep_blanks=True):
        lines += 1
        characters += len(line.strip())
        spaced += line[0].isspace() or "  " in line.rstrip()
        marked += SPACE_MARK in line
    return TextSize(lines, characters, spaced, marked)


class LargeText:
    """The training text.

    Args:
      files: its files.
      size: of them, as ``text_size`` counts.
      holds_out: whether some of its lines are held out for validation.
      keep_blanks: whether the blanks around its lines are kept.
    """

    def __init__(
        self, files: Sequence[Path], size: TextSize, holds_out: bool, keep_blanks: bool = False
    ) -> None:
        self._files = files
        self._keeps_blanks = keep_blanks
        self._size = size
        self._held_out = self._stretches() if holds_out else []
        self._key: Callable[[str], str] = str
        self._untrained: frozenset[str] = frozenset()
        self._unjudged: frozenset[str] = frozenset()

    def keep_apart(self, key: Callable[[str], str]) -> None:
        """Leaves lines that stand in training and among those that are held out out of one of them
        (``shared_lines``); reads the text once.

        Args:
          key: equal for lines that are the same.
        """
        held_out = list(self._lines(held_out=True))
        rare, common = shared_lines(self._lines(held_out=False), held_out, key)
        if all(key(line) in common for line in held_out):
            warn(
                "all lines that are held out for validation stand in the training text, too, so"
                " that validation says nothing of other text: give other text"
                " (`dev_source_files`)."
            )
            return
        self._key, self._untrained, self._unjudged = key, rare, common

    def begin(self, folder: Path, given: Sequence[Path] = ()) -> None:
        """Removes what a stopped preparation has made of other files; `given`: the vocabulary's,
        where it is not trained.
        """
        files = [[str(path), *_status(path)] for path in (*self._files, *given)]
        plan = json.dumps({"format": _FORMAT, "files": files}) + "\n"
        plan_file = folder / "plan.json"
        if plan_file.is_file() and plan_file.read_text(encoding="utf-8") == plan:
            return
        for path in folder.iterdir():
            path.unlink()
        write_text(plan_file, plan)

    def held_out(self) -> Iterator[str]:
        """Yields the lines for validation."""
        return self._lines(held_out=True)

    def sample(self, characters: int) -> Iterator[str]:
        """Yields lines for training, chosen by a fixed seed, with about so many characters."""
        return sample_items(self._lines(held_out=False), characters / self._size.characters)

    def encode(self, folder: Path, vocab_file: Path) -> Counter[str]:
        """Writes the shards of the lines for training; returns the sums of their counts."""
        lines, characters = self._size.lines, self._size.characters
        size = max(1, min(_LINES_OF_A_SHARD, _CHARACTERS_OF_A_SHARD * lines // characters))
        # Shards are of pairs; here the targets alone count.
        pairs = (("", line) for line in self._lines(held_out=False))
        return encode_split(
            pairs, folder, "train", vocab_file, None, lines, usable_cores(), size, _FEWER
        )

    def _lines(self, held_out: bool) -> Iterator[str]:
        """Yields the lines that are held out, or the others."""
        left_out = self._unjudged if held_out else self._untrained
        ends = iter(self._held_out)
        stretch = next(ends, range(0))
        for number, line in enumerate(lines_of(self._files, self._keeps_blanks)):
            if number >= stretch.stop:
                stretch = next(ends, range(self._size.lines, self._size.lines))
            if (number in stretch) == held_out and self._key(line) not in left_out:
                yield line

    def _stretches(self) -> list[range]:
        """The numbers of the lines that are held out, in order, chosen by a fixed seed."""
        lines = self._size.lines
        if lines < 2:
            raise UserError(
                f"{counted(lines, 'line')} of text leaves none to hold out for validation: give"
                " more, or files for validation (`dev_source_files`)."
            )
        length = min(_HELD_OUT_LINES, max(1, lines // (_LEAST_TRAINED * _HELD_OUT_STRETCHES)))
        count = min(_HELD_OUT_STRETCHES, max(1, lines // _LEAST_TRAINED))
        chosen = np.random.default_rng(0).choice(lines // length, count, replace=False)
        return [range(place * length, (place + 1) * length) for place in sorted(chosen.tolist())]


def _status(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
