"""Puzzles and other questions with answers, learnt from the user's own files.

How they are used::

    Run.create("aligned_files", "ut_aligned", problem_args={"source_files": ["p.csv"],
                                                            "board": "9x9"})
    Run.create("pairs_files", "ut_pairs", problem_args={"source_files": ["sums.tsv"]})

``questions.py`` says what the files may look like. Ids: 0 is padding, 1 the end, 2 the first
character of the training files. Without files for validation a tenth of the questions is held out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from ut_tf.data.arguments import file_paths
from ut_tf.data.corpus.encoded_pairs import EncodedExamples, Side
from ut_tf.data.text.vocabulary import write_symbols
from ut_tf.errors import UserError, counted
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.own_files.characters import CHARACTERS_FILE, CharactersCodec
from ut_tf.problems.own_files.problem import SPLITS, Arrays, Files, OwnFiles, PreparedSplits
from ut_tf.problems.own_files.questions import Form, Question, board_of, read_questions
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

if TYPE_CHECKING:
    from ut_tf.data.text.codec import Board

_HELD_OUT_SHARE, _HELD_OUT_MOST = 0.1, 2000
# Of more ratings, numbers are reported by their magnitude and others that are rare together.
_REPORTED_RATINGS, _OTHER = 12, "other"
# Answers written at every evaluation during training.
_VALIDATED = 200


class QuestionFiles(OwnFiles):
    """Base class of questions with answers from files.

    Args:
      name: of the problem, for messages.
      form: of a question.
      *files: of each split.
    """

    group_by: ClassVar[str | None] = "rating"
    needed: ClassVar[tuple[str, ...]] = (CHARACTERS_FILE,)
    unit: ClassVar[str] = "question"

    def __init__(self, name: str, form: Form, *files: Files | str) -> None:
        self._form = form
        super().__init__(name, dict(zip(SPLITS, map(file_paths, files), strict=True)), [form])

    def make(self, folder: Path) -> PreparedSplits:
        return _make(self._own_files, self._form, folder)

    def load(self, split: str, data_dir: Path) -> EncodedExamples:
        """{"inputs": int32 [length], "targets": int32 [target length]} and, except in training,
        "rating": string [], "" where there is none.
        """
        return _table(self.arrays(split, data_dir), split)


class AlignedFiles(QuestionFiles):
    """Questions with an answer at every position, from files.

    Args:
      source_files: for training: question and answer, of equal length, in each row.
      dev_source_files: for validation; none: a tenth of the training questions is held out.
      test_source_files: for ut-eval; none: the validation questions are judged.
      board: whose cells the characters are, row by row, such as 9x9; none: they are no cells.
      name: of the problem, for messages.
    """

    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("accuracy", "max")  # type: ignore[misc]
    method: ClassVar[str] = "aligned"

    def __init__(
        self,
        source_files: Files | str = (),
        dev_source_files: Files | str = (),
        test_source_files: Files | str = (),
        board: str = "",
        name: str = "aligned_files",
    ) -> None:
        form = Form(aligned=True, board=board_of(board))
        super().__init__(name, form, source_files, dev_source_files, test_source_files)

    @property
    def board(self) -> Board | None:
        """The board whose cells are the positions."""
        return self._form.board

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens with aligned targets over one vocabulary: padding, end, the characters."""
        size = int(self.summary(data_dir)["vocab_size"])
        return ProblemSpec("tokens", "aligned", size, size, shared_vocab=True)

    def text_codec(self, vocab_dir: Path) -> CharactersCodec:
        """The codec of characters."""
        return CharactersCodec(vocab_dir, board=self.board)


class PairsFiles(QuestionFiles):
    """Questions and answers of any lengths, character by character, from files.

    Args:
      source_files: for training: question and answer in each row.
      dev_source_files: for validation; none: a tenth of the training questions is held out.
      test_source_files: for ut-eval; none: the validation questions are judged.
      name: of the problem, for messages.
    """

    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("char_acc", "max")  # type: ignore[misc]
    method: ClassVar[str] = "greedy"
    validated: ClassVar[int] = _VALIDATED

    def __init__(
        self,
        source_files: Files | str = (),
        dev_source_files: Files | str = (),
        test_source_files: Files | str = (),
        name: str = "pairs_files",
    ) -> None:
        form = Form(aligned=False)
        super().__init__(name, form, source_files, dev_source_files, test_source_files)

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens to tokens over one vocabulary: padding, end, the characters."""
        size = int(self.summary(data_dir)["vocab_size"])
        return ProblemSpec("tokens", "tokens", size, size, shared_vocab=True)

    def text_codec(self, vocab_dir: Path) -> CharactersCodec:
        """The codec of characters."""
        return CharactersCodec(vocab_dir, with_end=True)


def _make(files: Mapping[str, Sequence[Path]], form: Form, folder: Path) -> PreparedSplits:
    """Reads the files of each split and writes the characters of the training questions."""
    splits = {split: list(read_questions(paths, form)) for split, paths in files.items() if paths}
    characters = sorted({*"".join(text for row in splits["train"] for text in row[:2])})
    for split in splits.keys() - {"train"}:
        _check_characters(splits[split], characters)
    if "validation" not in splits:
        splits["train"], splits["validation"] = held_out(splits["train"])
    write_symbols(folder / CHARACTERS_FILE, characters)
    return PreparedSplits(
        arrays={split: _arrays(rows, form, characters) for split, rows in splits.items()},
        examples={split: len(rows) for split, rows in splits.items()},
        vocab_size=FIRST_SYMBOL_ID + len(characters),
        vocabulary=counted(len(characters), "character"),
        further={},
    )


def _arrays(rows: Sequence[Question], form: Form, characters: Sequence[str]) -> Arrays:
    numbers = {symbol: number for number, symbol in enumerate(characters, FIRST_SYMBOL_ID)}
    end = [] if form.aligned else [END_ID]
    questions, answers = (
        Side.of(
            [[*map(numbers.__getitem__, row[column]), *end] for row in rows],
            FIRST_SYMBOL_ID + len(characters),
        )
        for column in (0, 1)
    )
    return {
        "questions": questions.ids,
        "question_lengths": questions.lengths,
        "answers": answers.ids,
        "answer_lengths": answers.lengths,
        "ratings": np.array(reported_ratings([row.rating for row in rows]), np.str_),
    }


def _table(arrays: Arrays, split: str) -> EncodedExamples:
    sides = {
        "inputs": Side(arrays["questions"], arrays["question_lengths"]),
        "targets": Side(arrays["answers"], arrays["answer_lengths"]),
    }
    return EncodedExamples(sides, {} if split == "train" else {"rating": arrays["ratings"]})


def held_out(rows: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """The rows for training and for validation; the second are those of some questions, chosen by a
    fixed seed, so that no question is both.

    Raises:
      UserError: there are too few of them.
    """
    questions = list(dict.fromkeys(row.question for row in rows))
    count = min(int(np.ceil(_HELD_OUT_SHARE * len(questions))), _HELD_OUT_MOST)
    if count == len(questions):
        raise UserError(
            f"{counted(len(questions), 'question')} leave none to hold out for validation: give"
            " more, or files for validation (`dev_source_files`)."
        )
    numbers = np.random.default_rng(0).choice(len(questions), count, replace=False)
    chosen = {questions[number] for number in numbers}
    return (
        [row for row in rows if row.question not in chosen],
        [row for row in rows if row.question in chosen],
    )


def reported_ratings(ratings: Sequence[str]) -> list[str]:
    """The group of each row: its rating or, of many different ones, the range of a number and
    "other" of what is rare; "" where there is none.
    """
    counts = Counter(rating for rating in ratings if rating)
    if len(counts) <= _REPORTED_RATINGS:
        return list(ratings)
    if all(rating.isascii() and rating.isdecimal() for rating in counts):
        return [_magnitude(rating) if rating else "" for rating in ratings]
    frequent = {rating for rating, _ in counts.most_common(_REPORTED_RATINGS)}
    return [rating if rating in frequent or not rating else _OTHER for rating in ratings]


def _magnitude(rating: str) -> str:
    """The numbers of as many digits: "0", "1-9", "10-99", ..."""
    digits = rating.lstrip("0")
    return f"1{'0' * (len(digits) - 1)}-{'9' * len(digits)}" if digits else "0"


def _check_characters(rows: Sequence[Question], characters: Sequence[str]) -> None:
    known = frozenset(characters)
    for row in rows:
        for what, text in (("question", row.question), ("answer", row.answer)):
            if foreign := next((symbol for symbol in text if symbol not in known), ""):
                raise UserError(
                    f"{row.place}: the {what} has the character {foreign!r}, which the training"
                    f" files do not have: expected {''.join(characters)[:80]!r}; correct the line."
                )
