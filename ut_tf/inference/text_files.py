"""Lines of text in and out of a decoder: bytes that are not UTF-8, packed files, shares of a
corpus, outputs as lines, speed.

Example::

    texts = list(codec.read(read_input(path), str(path)))
    ours = share(texts, shards=4, shard=1)
    for hypotheses in translator.translate(ours):
        print(output_line(hypotheses, with_scores=False))
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ut_tf.data.corpus.parallel_text import read_byte_lines
from ut_tf.errors import UserError
from ut_tf.notices import report, warn

if TYPE_CHECKING:
    from ut_tf.data.text.codec import TextCodec
    from ut_tf.inference.example_reader import Texts
    from ut_tf.inference.translator import Hypothesis, Translator

_BYTE_ORDER_MARK = "\ufeff"
_SECONDS_BETWEEN_REPORTS = 10.0

T = TypeVar("T")


def input_lines(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Yields the lines of a file without their ends; a byte order mark at its beginning is left
    out.

    Bytes that are not UTF-8 become U+FFFD, with a warning on standard error that names the line:
    one damaged line must not stop the rest.

    Args:
      file: its lines as bytes.
      name: of the file, for warnings.
    """
    for number, line in enumerate(file, start=1):
        plain = line.rstrip(b"\r\n")
        try:
            text = plain.decode("utf-8")
        except UnicodeDecodeError as error:
            text = plain.decode("utf-8", errors="replace")
            warn(
                f"{name}, line {number}: byte {error.start + 1} is not UTF-8; it is read as U+FFFD."
            )
        yield text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text


def read_input(path: Path) -> list[str]:
    """The lines of a file, plain or packed by gzip, as ``input_lines`` does.

    Raises:
      UserError: the file cannot be read.
    """
    if path.is_dir():
        raise UserError(f"{path} is a directory: name a file with one text a line.")
    return list(input_lines(read_byte_lines(path), str(path)))


def share(items: Sequence[T], shards: int, shard: int) -> tuple[Sequence[T], int]:
    """One of `shards` consecutive shares of like size, and the number of its first item,
    from 1.

    Args:
      items: the whole.
      shards: how many shares there are.
      shard: number of the share, from 0.
    """
    first, last = len(items) * shard // shards, len(items) * (shard + 1) // shards
    return items[first:last], first + 1


def shard_path(path: Path, shards: int, shard: int) -> Path:
    """The file for one share of what `path` would hold: ``out.txt-00001-of-00004``;
    alphabetical order joins them.
    """
    return path if shards == 1 else path.with_name(f"{path.name}-{shard:05d}-of-{shards:05d}")


def output_line(hypotheses: Sequence[Hypothesis], with_scores: bool) -> str:
    """One line: the texts, best first, with tabs between; with scores a tab and the score
    after each.
    """
    parts = [
        [one_line(output.text), f"{output.score:.6f}"][: 2 if with_scores else 1]
        for output in hypotheses
    ]
    return "\t".join(part for pair in parts for part in pair)


def translated_lines(
    translator: Translator, texts: Iterable[Texts], first: int, name: str | None
) -> Iterator[str]:
    """Yields the line of each example's outputs; arguments as of ``Translator.translate``."""
    for hypotheses in translator.translate(texts, first, name):
        yield output_line(hypotheses, translator.config.write_beam_scores)


def scored_lines(
    translator: Translator, pairs: Sequence[tuple[Texts, str]], first: int, name: str | None
) -> Iterator[str]:
    """Yields the line with the score of each pair of texts and target; `first` and `name` as of
    ``Translator.score``.
    """
    sources, targets = (source for source, _ in pairs), (target for _, target in pairs)
    for score in translator.score(sources, targets, first, name):
        yield f"{score:.6f}"


def scored_pairs(codec: TextCodec, lines: Sequence[str], name: str) -> list[tuple[Texts, str]]:
    """The source and the target of each line; it has a column for each of the codec's
    fields and one for the target.

    Raises:
      UserError: a line has another number of columns, or is not of the problem's format; names file
        and line.
    """
    from ut_tf.data.text.codec import CHECKED_LINES

    rows = [line.split("\t") for line in lines]
    names = [*(codec.fields if len(codec.fields) != 1 else ("source",)), "target"]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise UserError(
                f"{name}, line {number}: it has {len(row)} columns, expected {len(names)}:"
                f" {', tab, '.join(names)}."
            )
    if len(codec.fields) == 1:
        sources = list(codec.read([row[0] for row in rows], name))
    else:
        sources = [tuple(column.replace("\\n", "\n") for column in row[:-1]) for row in rows]
        if codec.fields:
            sources = list(codec.check(enumerate(sources, start=1), name, CHECKED_LINES))
    targets = codec.read_targets([row[-1] for row in rows], name)
    return list(zip(sources, targets, strict=True))


def one_line(text: str) -> str:
    """The text with blanks for tabs and for whatever begins a new line: line n must stay
    the answer to line n.
    """
    return re.sub(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", " ", text)


def line_bytes(line: str) -> bytes:
    """The line as it is written, with its end."""
    return line.encode("utf-8", errors="replace") + b"\n"


class Speed:
    """Reports on standard error how many lines are done, every ten seconds and at the end.

    Args:
      command: first word of the reports.
      total: lines there will be; None: not known.
    """

    def __init__(self, command: str, total: int | None = None) -> None:
        self._command = command
        self._of = "" if total is None else f" of {total}"
        self._began = self._last = time.monotonic()
        self._done = 0

    def add(self) -> None:
        """Counts one line."""
        self._done += 1
        if time.monotonic() - self._last > _SECONDS_BETWEEN_REPORTS:
            self._last = time.monotonic()
            self._say(self._of)

    def finish(self) -> None:
        """Reports the whole."""
        self._say("")

    def _say(self, of: str) -> None:
        seconds = max(time.monotonic() - self._began, 1e-9)
        lines = "line" if self._done == 1 and not of else "lines"
        report(f"{self._command}: {self._done}{of} {lines}, {self._done / seconds:.1f} lines/s")
