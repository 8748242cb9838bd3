"""Rows of the user's tables: CSV with named columns, and JSON lines.

How it is used::

    file_kind(Path("train.csv.gz"))                                 # ".csv"
    for line, values in csv_columns(path, ("text", "label")):
        values["text"]
    for line, text, value in json_values(path):                     # None: the line is no JSON
        ...
"""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.errors import UserError, counted, near_names
from ut_tf.notices import note
from ut_tf.storage.json_lines import DoubledKeyError, unique_keys

SHOWN = 80
_TOLD = 400


def file_kind(path: Path) -> str:
    """The ending of a file's name in small letters, with its point and without .gz; "": none."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def csv_columns(
    path: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the number of the last line of each row, and its values by column; tells of columns
    that are not read.

    Args:
      path: of a file whose first line names the columns.
      required: names that must be among them.
      optional: names that may be.

    Raises:
      UserError: a column is missing, or a row has another number of them; names file and line.
    """
    rows = _csv_rows(path)
    _, names = next(rows, (1, []))
    header = [name.strip().lower() for name in names]
    if any(name not in header for name in required):
        raise UserError(
            f"{path}, line 1: the columns are {', '.join(map(repr, header)) or 'none'}: expected"
            f" {' and '.join(map(repr, required))} among them; name them so."
        )
    note_unread(path, "column", header, (*required, *optional))
    for number, row in rows:
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {number}: it has {counted(len(row), 'column')}, the header"
                f" {len(header)}: complete the line, or quote a text that has commas."
            )
        # Of two columns with one name the first counts.
        yield number, dict(zip(reversed(header), reversed(row), strict=True))


def note_unread(path: Path, what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Tells of names, of columns or keys, that are not read, and of the known ones that they are
    like and that are not there.
    """
    missing = [name for name in known if name not in names]
    told = []
    for name in names:
        if name not in known:
            near = near_names(name, missing, 1)
            told.append(repr(name) + (f" (did you mean {near[0]!r}?)" if near else ""))
    if told:
        are = "is" if len(told) == 1 else "are"
        note(f"{path}: {counted(len(told), what)} {are} not read: {', '.join(told)[:_TOLD]}.")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its last line."""
    reader = csv.reader(f"{line}\n" for line in read_lines(path))
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(
            f"{path}, line {reader.line_num} is no row of a table ({error}): close its quotation"
            " mark, or shorten a text of more than 131,072 characters."
        ) from error


def json_values(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Yields number, text and value of each line; None as the value of a line that is no JSON.

    Raises:
      UserError: an object has a key twice; names the line and the key.
    """
    for number, line in enumerate(read_lines(path), start=1):
        try:
            value = json.loads(line, object_pairs_hook=unique_keys)
        except DoubledKeyError as error:
            raise UserError(f"{path}, line {number}: {error}: keep one of the two.") from None
        except (ValueError, RecursionError):
            value = None
        yield number, line, value


def is_encodable(text: str) -> bool:
    """Whether a text has no halves of surrogate pairs, which JSON may have."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def shown_value(value: Any) -> str:
    """A value of JSON as a message names it."""
    # What can be read may be nested too deeply to be written.
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value)[:SHOWN]
