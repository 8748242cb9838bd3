"""Lines of a text that is too large for the memory: counted, sampled and encoded as they are read.

How it is used::

    text = LargeText(paths, text_size(paths))
    text.begin(folder)
    model = train_subwords(text.sample(250_000_000), 8000)
    counts = text.encode(folder, vocab_file)            # train-00000.npz and others

Every pass reads the files again. A stopped preparation is continued: what shards are there stays.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ut_tf.config.processor import usable_cores
from ut_tf.data.corpus.encoding import encode_split, sample_items
from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.data.text.subwords import SPACE_MARK
from ut_tf.errors import UserError
from ut_tf.storage.files import write_text

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
      keep_blanks: whether the blanks around its lines are kept.
    """

    def __init__(self, files: Sequence[Path], size: TextSize, keep_blanks: bool = False) -> None:
        self._files = files
        self._keeps_blanks = keep_blanks
        self._size = size

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

    def sample(self, characters: int) -> Iterator[str]:
        """Yields lines, chosen by a fixed seed, with about so many characters."""
        return sample_items(self._lines(), characters / self._size.characters)

    def encode(self, folder: Path, vocab_file: Path) -> Counter[str]:
        """Writes the shards of the lines; returns the sums of their counts."""
        lines, characters = self._size.lines, self._size.characters
        size = max(1, min(_LINES_OF_A_SHARD, _CHARACTERS_OF_A_SHARD * lines // characters))
        # Shards are of pairs; here the targets alone count.
        pairs = (("", line) for line in self._lines())
        return encode_split(
            pairs, folder, "train", vocab_file, None, lines, usable_cores(), size, _FEWER
        )

    def _lines(self) -> Iterator[str]:
        return lines_of(self._files, self._keeps_blanks)


def _status(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
