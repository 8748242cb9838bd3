"""Texts and their labels, read from the user's files and checked on the way.

How it is used::

    for example in read_labelled(LabelledFiles((Path("reviews.tsv"),))):
        example.label, example.text, example.place  # "good", "I liked it.", "reviews.tsv, line 1"

A file is read by its name and its lines:

- NAME.csv: a header with the columns text and label; NAME.jsonl: an object with these keys a line,
  the text a string, the label a string, a whole number, true or false, of one kind in a file.
- otherwise label, tab, text; or fastText's __label__NAME, blank, text.
- with files of labels: texts alone, and line n of one is the label of line n of the other.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.errors import UserError, counted
from ut_tf.problems.own_files.rows import (
    SHOWN,
    csv_columns,
    file_kind,
    is_encodable,
    json_values,
    shown_value,
)

_FASTTEXT = "__label__"
_COLUMNS = ("text", "label")


class Labelled(NamedTuple):
    """A text, its label, and the file and line that they stand in."""

    text: str
    label: str
    place: str


@dataclass(frozen=True)
class LabelledFiles:
    """Files of texts with labels.

    Args:
      texts: files; without `labels` they hold the labels as well.
      labels: as many files as `texts`, each with as many lines as its counterpart.

    Raises:
      UserError: there are other numbers of text and label files.
    """

    texts: tuple[Path, ...]
    labels: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.labels and len(self.labels) != len(self.texts):
            raise UserError(
                f"{counted(len(self.texts), 'file')} of texts but {len(self.labels)} of labels:"
                " name one file of labels for each file of texts, in the same order."
            )

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, the texts first."""
        return (*self.texts, *self.labels)


def read_labelled(files: LabelledFiles) -> Iterator[Labelled]:
    """Yields the examples of all files.

    Raises:
      UserError: a file cannot be read, is not UTF-8 or has no lines, or a line lacks its text or
        its label; names file and line.
    """
    for path in files.files:
        if not path.is_file():
            raise UserError(f"{path} is no file: expected texts or their labels.")
    for number, path in enumerate(files.texts):
        labels = files.labels[number] if files.labels else None
        rows = _rows(path) if labels is None else _paired(path, labels)
        is_empty = True
        for line, label, text in rows:
            is_empty = False
            yield _checked(text, label, f"{path}, line {line}")
        if is_empty:
            raise UserError(f"{path} has no lines: expected a label, a tab and a text in each.")


Row = tuple[int, str, str]
"""Number of the line, label, text."""


def _checked(text: str, label: str, place: str) -> Labelled:
    text, label = text.strip(), label.strip()
    for what, value in (("text", text), ("label", label)):
        if not value:
            raise UserError(
                f"{place} has no {what}: expected a label and a text; complete the line or delete"
                " it."
            )
    if len(label.splitlines()) > 1:
        raise UserError(f"{place}: the label {label[:SHOWN]!r} has several lines: expected one.")
    return Labelled(text, label, place)


def _rows(path: Path) -> Iterator[Row]:
    readers = {".csv": _comma_separated, ".jsonl": _objects, ".json": _objects}
    return readers.get(file_kind(path), _lines)(path)


def _lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            raise UserError(
                f"{path}, line {number} is empty: expected a label, a tab and a text; delete the"
                " line."
            )
        if line.startswith(_FASTTEXT):
            yield number, *_of_fasttext(line, f"{path}, line {number}")
        elif "\t" in line:
            label, _, text = line.partition("\t")
            yield number, label, text
        else:
            raise UserError(
                f"{path}, line {number}: {line[:SHOWN]!r} has no tab: expected a label, a tab and"
                " a text (or __label__NAME and a text, or give the files of the labels as"
                " `target_files`)."
            )


def _of_fasttext(line: str, place: str) -> tuple[str, str]:
    label, _, text = line.removeprefix(_FASTTEXT).partition(" ")
    if text.lstrip().startswith(_FASTTEXT):
        raise UserError(
            f"{place} has more than one label: expected one class for each text; keep one of them."
        )
    return label, text


def _comma_separated(path: Path) -> Iterator[Row]:
    for number, row in csv_columns(path, _COLUMNS):
        yield number, row["label"], row["text"]


def _objects(path: Path) -> Iterator[Row]:
    first: tuple[str, str] | None = None
    for number, line, example in json_values(path):
        place = f"{path}, line {number}"
        if not isinstance(example, dict) or any(name not in example for name in _COLUMNS):
            raise UserError(
                f"{place}: {line[:SHOWN]!r}: expected an object such as"
                ' {"text": "I liked it.", "label": "good"} on each line.'
            )
        text, label = (example[name] for name in _COLUMNS)
        if not isinstance(text, str) or not is_encodable(text):
            raise _wrong_value(place, "text", text, "a text in quotation marks")
        kind, written = _label(label)
        if not kind:
            raise _wrong_value(place, "label", label, "a text, a whole number, true or false")
        first = first or (kind, f"{shown_value(label)} on line {number}")
        if kind != first[0]:
            raise UserError(
                f"{place}: the label {shown_value(label)} is {kind}, and"
                f" {first[1]} is {first[0]}: expected labels of one kind; write all of them as"
                " texts, in quotation marks."
            )
        yield number, written, text


def _label(label: Any) -> tuple[str, str]:
    """The kind of a label, empty where it can be none, and the label as a text; 1.0 is 1, since
    tables with gaps have whole numbers so.
    """
    if isinstance(label, bool):
        return "true or false", str(label)
    if isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        return "a number", str(int(label))
    if isinstance(label, str) and is_encodable(label):
        return "a text", label
    return "", ""


def _wrong_value(place: str, what: str, value: Any, expected: str) -> UserError:
    return UserError(
        f"{place}: the {what} is {shown_value(value)}: expected {expected}; correct the line"
        " or delete it."
    )


def _paired(texts: Path, labels: Path) -> Iterator[Row]:
    lines = itertools.zip_longest(read_lines(texts), read_lines(labels))
    for number, (text, label) in enumerate(lines, start=1):
        if text is None or label is None:
            longer, shorter = (labels, texts) if text is None else (texts, labels)
            raise UserError(
                f"{longer} has more lines than {shorter}, which ends before line {number}: expected"
                " the label of each text on the same line of the other file."
            )
        yield number, label, text
