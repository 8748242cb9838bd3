"""Pairs of lines in two languages, read from the user's files and checked on the way.

How it is used::

    # line n of one file is the translation of line n of the other
    pairs = ParallelFiles((Path("train.en.gz"),), (Path("train.de.gz"),))
    pairs = ParallelFiles((Path("pairs.tsv"),))  # source<TAB>target<TAB>whatever follows
    for source, target in pairs: ...

Lines are UTF-8, plain or gzip. Every pass over the pairs reads the files again.
"""

import contextlib
import gzip
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ut_tf.data.text.line_ends import check_line_ends
from ut_tf.data.text.utf8 import decode_utf8
from ut_tf.data.unpacking import unpacked_gzip
from ut_tf.errors import UserError, counted

_GZIP_MARK = b"\x1f\x8b"
_REMEDY = "convert the file to UTF-8 (iconv does it)"


@dataclass(frozen=True)
class ParallelFiles:
    """Files of parallel text.

    Args:
      sources: files with one sentence a line; without `targets`, files whose lines hold source,
        tab, target.
      targets: as many files as `sources`, each with as many lines as its counterpart.

    Raises:
      UserError: the two sides have different numbers of files.
    """

    sources: tuple[Path, ...]
    targets: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.targets and len(self.targets) != len(self.sources):
            raise UserError(
                f"{_named(self.sources, 'source')} but {_named(self.targets, 'target')}: "
                "name one target file for each source file, in the same order."
            )

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, the sources first."""
        return (*self.sources, *self.targets)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yields (source, target), as they stand in the files, without line ends.

        Raises:
          UserError: a file cannot be read, is not UTF-8 or has no lines, two files have different
            numbers of lines, or a line lacks its tab; names file and line.
        """
        for file in self.files:
            if not file.is_file():
                raise UserError(
                    f"{file} is no file: expected"
                    f" {'parallel text' if self.targets else 'lines of source, tab, target'}."
                )
        if not self.targets:
            for path in self.sources:
                yield from _tabbed(path)
        for source, target in zip(self.sources, self.targets, strict=bool(self.targets)):
            yield from _paired(source, target)

    def place(self, number: int, of_target: bool = False) -> str:
        """File and line of the source or target of a pair, numbered from 0 over all files."""
        files = self.targets if of_target and self.targets else self.sources
        for path in files:
            lines = sum(1 for _ in read_byte_lines(path))
            if number < lines:
                return f"{path}, line {number + 1}"
            number -= lines
        raise IndexError(number)


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a text file, plain or packed by gzip, without their ends; a byte order
    mark at the start is left out.

    Raises:
      UserError: the file cannot be read, or a line is not UTF-8; names file and line.
    """
    for number, line in enumerate(read_byte_lines(path), start=1):
        yield decode_utf8(line.rstrip(b"\r\n"), str(path), _REMEDY, number)


def read_byte_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file, plain or packed by gzip, as bytes with their ends; of a pipe too,
    which can be opened once only.

    Raises:
      UserError: the file cannot be read, or has a CR inside of a line; names file and line.
    """
    number = 0
    try:
        with _opened(path) as file:
            for line in check_line_ends(file, str(path)):
                yield line
                number += 1
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"{path} cannot be unpacked after line {number} ({error}): it is cut off or damaged;"
            " restore it."
        ) from error
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror or error}): check its name and permissions."
        ) from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        if file.peek(len(_GZIP_MARK)).startswith(_GZIP_MARK):
            with unpacked_gzip(file, path) as unpacked:
                yield unpacked
        else:
            yield file


def _paired(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    count = 0
    lines = itertools.zip_longest(read_lines(source), read_lines(target))
    for first, second in lines:
        if first is None or second is None:
            longest = count + 1 + sum(1 for _ in lines)
            counts = (count, longest) if first is None else (longest, count)
            raise UserError(
                f"{source} has {counted(counts[0], 'line')}, {target} {counts[1]}: expected the"
                " same number of lines; line n of one file translates line n of the other."
            )
        count += 1
        yield first, second
    if not count:
        raise UserError(f"{source} and {target} have no lines: expected one sentence a line.")


def _tabbed(path: Path) -> Iterator[tuple[str, str]]:
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise UserError(
                f"{path}, line {number}: {line[:80]!r} has no tab: expected source, tab, target (or"
                " give the files of the targets, too, if this one holds only sources)."
            )
        yield columns[0], columns[1]
    if not number:
        raise UserError(f"{path} has no lines: expected source, tab, target in each.")


def _named(files: tuple[Path, ...], side: str) -> str:
    names = f" ({', '.join(file.name for file in files)})" if files else ""
    return counted(len(files), f"{side} file") + names
