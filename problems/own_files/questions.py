"""Questions and answers, read from the user's files and checked on the way.

How it is used::

    for row in read_questions((Path("puzzles.csv"),), Form(board=Board(4, 4, 2, 2))):
        row.question, row.answer, row.rating, row.place     # "13...", "1324...", "7", "..., line 2"

A file is read by its name:

- NAME.csv: a header with the columns question and answer; NAME.jsonl: an object with these keys a
  line, both texts.
- otherwise question, tab, answer and, behind another tab, a rating.

A column or key rating or difficulty, if there is one, is the rating; others are told and not read.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.data.text.codec import Board
from ut_tf.errors import UserError
from ut_tf.problems.own_files.rows import (
    SHOWN,
    csv_columns,
    file_kind,
    is_encodable,
    json_values,
    note_unread,
    shown_value,
)

_COLUMNS = ("question", "answer")
_RATINGS = ("rating", "difficulty")
_SMALL, _LARGE = 2, 100
# Larger boards are mazes and pictures, which have no boxes.
_LARGEST_WITH_BOXES = 25


class Question(NamedTuple):
    """A question, its answer, its rating ("": none), and the file and line that they stand in."""

    question: str
    answer: str
    rating: str
    place: str


class Form(NamedTuple):
    """What questions and answers must be.

    Fields:
      aligned: whether an answer has as many characters as its question.
      board: whose cells the characters are; None: any number of them.
    """

    aligned: bool = True
    board: Board | None = None


def board_of(text: str) -> Board | None:
    """The board "9x9": rows, columns and, of a square one, boxes; None of "".

    Raises:
      UserError: the text is no board.
    """
    if not text:
        return None
    found = re.fullmatch(r"([0-9]{1,4})[xX]([0-9]{1,4})", text)
    rows, columns = map(int, found.groups()) if found else (0, 0)
    if not (_SMALL <= rows <= _LARGE and _SMALL <= columns <= _LARGE):
        raise UserError(
            f"`board`={text}: expected rows and columns, {_SMALL} to {_LARGE} each, such as 9x9."
        )
    if rows != columns or rows > _LARGEST_WITH_BOXES:
        return Board(rows, columns)
    height = max(size for size in range(1, rows) if rows % size == 0 and size * size <= rows)
    return Board(rows, columns, height, rows // height) if height > 1 else Board(rows, columns)


def read_questions(files: Sequence[Path], form: Form) -> Iterator[Question]:
    """Yields the rows of all files.

    Raises:
      UserError: a file cannot be read, is not UTF-8 or has no rows, or a row is not of the form;
        names file and line.
    """
    for path in files:
        if not path.is_file():
            raise UserError(f"{path} is no file: expected questions and answers.")
        readers = {".csv": _comma_separated, ".jsonl": _objects, ".json": _objects}
        is_empty = True
        for row in readers.get(file_kind(path), _lines)(path):
            is_empty = False
            yield _checked(row, form)
        if is_empty:
            raise UserError(f"{path} has no rows: expected a question and an answer in each.")


def _lines(path: Path) -> Iterator[Question]:
    for number, line in enumerate(read_lines(path), start=1):
        place = f"{path}, line {number}"
        columns = line.split("\t")
        if len(columns) not in (2, 3):
            raise UserError(
                f"{place}: {line[:SHOWN]!r} has {len(columns) - 1} tabs: expected question, tab,"
                " answer and, if there is one, tab, rating."
            )
        question, answer, *ratings = columns
        yield Question(question, answer, "".join(ratings), place)


def _comma_separated(path: Path) -> Iterator[Question]:
    for number, row in csv_columns(path, _COLUMNS, _RATINGS):
        rating = next((row[name] for name in _RATINGS if name in row), "")
        yield Question(row["question"], row["answer"], rating, f"{path}, line {number}")


def _objects(path: Path) -> Iterator[Question]:
    for number, line, value in json_values(path):
        place = f"{path}, line {number}"
        if not isinstance(value, dict) or any(name not in value for name in _COLUMNS):
            raise UserError(
                f"{place}: {line[:SHOWN]!r}: expected an object such as"
                ' {"question": "12+3", "answer": "15"} on each line.'
            )
        if number == 1:
            note_unread(path, "key", [*value], (*_COLUMNS, *_RATINGS))
        for name in _COLUMNS:
            if not isinstance(value[name], str) or not is_encodable(value[name]):
                raise UserError(
                    f"{place}: the {name} is {shown_value(value[name])}: expected a text in"
                    " quotation marks; correct the line or delete it."
                )
        rating = next((value[name] for name in _RATINGS if value.get(name) is not None), "")
        written = rating if isinstance(rating, str) else shown_value(rating)
        if isinstance(rating, list | dict) or not is_encodable(written):
            raise UserError(f"{place}: the rating is {written!r}: expected a number or a text.")
        yield Question(value["question"], value["answer"], written, place)


def _checked(row: Question, form: Form) -> Question:
    question, answer = (_of_board(text, form.board) for text in row[:2])
    for what, text in (("question", question), ("answer", answer)):
        if not text:
            raise UserError(f"{row.place} has no {what}: complete the line or delete it.")
        if "\n" in text or "\r" in text:
            raise UserError(f"{row.place}: the {what} has several lines: expected one.")
        if form.board is not None and len(text) != form.board.rows * form.board.columns:
            rows, columns = form.board[:2]
            raise UserError(
                f"{row.place}: the {what} has {len(text)} characters: expected"
                f" {rows * columns}, the cells of `board`={rows}x{columns}, row by row."
            )
    if form.aligned and len(question) != len(answer):
        raise UserError(
            f"{row.place}: the question has {len(question)} characters and the answer"
            f" {len(answer)}: expected as many; problem pairs_files takes answers of any length."
        )
    return Question(question, answer, " ".join(row.rating.split()), row.place)


def _of_board(text: str, board: Board | None) -> str:
    """The cells of a board that may have blanks between its rows."""
    if board is None or len(text) == board.rows * board.columns:
        return text
    return "".join(text.split())
