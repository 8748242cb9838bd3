"""Puzzles and other questions with answers, learnt from the user's own files.

How they are used::

    Run.create("aligned_files", "ut_aligned", problem_args={"source_files": ["p.csv"],
                                                            "board": "9x9"})
    Run.create("pairs_files", "ut_pairs", problem_args={"source_files": ["sums.tsv"]})

``questions.py`` says what the files may look like. Ids: 0 is padding, 1 the end, 2 the first
character of the training files. Without files for validation a tenth of the questions is held out.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ut_tf.data.arguments import file_paths
from ut_tf.data.arrays import open_arrays, write_arrays
from ut_tf.data.corpus.encoded_pairs import Array, HostSide, Side
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.prepared import PreparedFolder, check_readable, source_record
from ut_tf.data.problem import Problem
from ut_tf.data.text.vocabulary import write_symbols
from ut_tf.errors import UserError, counted
from ut_tf.notices import report
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.own_files.characters import CHARACTERS_FILE, CharactersCodec
from ut_tf.problems.own_files.questions import Form, Question, board_of, read_questions
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

if TYPE_CHECKING:
    from ut_tf.data.text.codec import Board

Files = tuple[str, ...]
_SPLITS = ("train", "validation", "test")
_HELD_OUT_SHARE, _HELD_OUT_MOST = 0.1, 2000
# Of more ratings, numbers are reported by their magnitude and others that are rare together.
_REPORTED_RATINGS, _OTHER = 12, "other"
# Answers written at every evaluation during training.
_VALIDATED = 200


class QuestionFiles(Problem):
    """Base of questions with answers from files.

    Args:
      files: those of each split; of "validation" and "test" there may be none.
      form: what questions and answers must be.
      name: of the problem, for messages.
    """

    group_by: ClassVar[str | None] = "rating"
    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {
        "source_files": "files",
        "dev_source_files": "files",
        "test_source_files": "files",
    }

    def __init__(self, files: Sequence[Files | str], form: Form, name: str) -> None:
        self.name = name
        self._form = form
        self._files = dict(zip(_SPLITS, map(file_paths, files), strict=True))
        self._loaded: dict[tuple[Path, str], tuple[Side, Side, Array]] = {}

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Makes characters and ids, or returns at once where they are there.

        Raises:
          UserError: no files are named, one is not as it should be, or has changed since.
        """
        if not self._files["train"]:
            raise UserError(
                f"problem {self.name} has no training file: name it with `source_files`."
            )
        folder = self._folder(data_dir)
        folder.make_once(lambda: self._make(folder))
        folder.refuse_changed_sources()

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens with targets over one vocabulary: padding, end, the characters."""
        summary = self._folder(data_dir).require(self, data_dir).summary()
        size = int(summary["vocab_size"])
        kind: Literal["aligned", "tokens"] = "aligned" if self._form.aligned else "tokens"
        return ProblemSpec("tokens", kind, size, size, shared_vocab=True)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": int32 [length], "targets": int32 [target length]} and, except in training,
        "rating": string [], "" where there is none; `length` has no effect.
        """
        import tensorflow as tf

        questions, answers, ratings = self._load(split, data_dir)
        order = example_order(split, len(ratings), seed, epoch)
        sides = {"inputs": HostSide(questions), "targets": HostSide(answers)}
        with tf.device("/CPU:0"):
            rows, names = tf.constant(order, tf.int32), tf.constant(ratings.tolist(), tf.string)

        def batch(numbers: Any) -> dict[str, Any]:
            chosen = tf.gather(rows, numbers)
            features = {name: side.padded(chosen) for name, side in sides.items()}
            return (
                features if split == "train" else {**features, "rating": tf.gather(names, chosen)}
            )

        lengths = np.maximum(questions.lengths, answers.lengths)[order]
        return ExampleTable(lengths.astype(np.int32), batch)

    @property
    def judged_split(self) -> str:
        """The test split or, where no files were given for it, the validation split."""
        return "test" if self._files["test"] else "validation"

    def text_codec(self, vocab_dir: Path) -> CharactersCodec:
        """The codec of characters."""
        return CharactersCodec(vocab_dir, not self._form.aligned, self._form.board)

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """The file of the characters."""
        return [self._folder(data_dir).path / CHARACTERS_FILE]

    def _folder(self, data_dir: Path) -> PreparedFolder:
        files = {split: list(map(str, paths)) for split, paths in self._files.items()}
        identity = json.dumps([self._form, files], sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
        return PreparedFolder(
            data_dir / "own_files" / f"{self.name}-{digest}",
            needed=(CHARACTERS_FILE,),
            fields={"vocab_size": int, "examples": dict, "files": list, "sha256": dict},
        )

    def _make(self, folder: PreparedFolder) -> None:
        paths = [path for split in _SPLITS for path in self._files[split]]
        check_readable(paths)
        report(f"preparing {self.name} in {folder.path}")
        records = [source_record(path) for path in paths]
        splits = {
            split: list(read_questions(files, self._form))
            for split, files in self._files.items()
            if files
        }
        characters = sorted({*"".join(text for row in splits["train"] for text in row[:2])})
        for split in splits.keys() - {"train"}:
            _check_characters(splits[split], characters)
        if "validation" not in splits:
            splits["train"], splits["validation"] = held_out(splits["train"])
        folder.path.mkdir(parents=True, exist_ok=True)
        write_symbols(folder.path / CHARACTERS_FILE, characters)
        for split, rows in splits.items():
            self._write(folder.path / f"{split}.npz", rows, characters)
        counts = {split: len(rows) for split, rows in splits.items()}
        digests = folder.digests((CHARACTERS_FILE, *(f"{split}.npz" for split in splits)))
        size = FIRST_SYMBOL_ID + len(characters)
        folder.finish({"vocab_size": size, "examples": counts, "files": records, "sha256": digests})
        told = ", ".join(f"{count:,} for {split}" for split, count in counts.items())
        report(f"{self.name}: questions: {told}; {len(characters)} characters")

    def _write(self, path: Path, rows: Sequence[Question], characters: Sequence[str]) -> None:
        numbers = {symbol: number for number, symbol in enumerate(characters, FIRST_SYMBOL_ID)}
        end = [] if self._form.aligned else [END_ID]
        questions, answers = (
            Side.of(
                [[*map(numbers.__getitem__, row[column]), *end] for row in rows],
                FIRST_SYMBOL_ID + len(characters),
            )
            for column in (0, 1)
        )
        write_arrays(
            path,
            questions=questions.ids,
            question_lengths=questions.lengths,
            answers=answers.ids,
            answer_lengths=answers.lengths,
            ratings=np.array(reported_ratings([row.rating for row in rows]), np.str_),
        )

    def _load(self, split: str, data_dir: Path) -> tuple[Side, Side, Array]:
        key = (data_dir, split)
        if key not in self._loaded:
            folder = self._folder(data_dir)
            there = folder.require(self, data_dir).summary()["examples"]
            if split not in there:
                raise UserError(
                    f"{self.name} has no split {split!r}: expected one of {', '.join(there)}."
                )
            path = folder.verified(f"{split}.npz")
            with folder.reading(), open_arrays(path) as file:
                self._loaded[key] = (
                    Side(file["questions"], file["question_lengths"]),
                    Side(file["answers"], file["answer_lengths"]),
                    file["ratings"],
                )
        return self._loaded[key]


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
        super().__init__((source_files, dev_source_files, test_source_files), form, name)

    @property
    def board(self) -> Board | None:
        """The board whose cells are the positions."""
        return self._form.board


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
        files = (source_files, dev_source_files, test_source_files)
        super().__init__(files, Form(aligned=False), name)


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
