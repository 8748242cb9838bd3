"""The data folders of HRM and TRM (arXiv 2506.21734, 2510.04871), mapped from their files.

How it is used::

    Run.create("puzzle_folder", "ut_aligned", problem_args={"folder": "data/sudoku-extreme-1k"})

The folders train/ and test/ hold dataset.json and arrays: all__inputs.npy and all__labels.npy
[examples, seq_len]; all__puzzle_indices.npy, the first example of each puzzle and the number of
examples; all__group_indices.npy, the first puzzle of each group and the number of puzzles; and
all__puzzle_identifiers.npy. A group is a puzzle with what was made of it (digits exchanged, say).

Ids: id i of theirs is i + 2 here, since 1 ends a sequence. A label `ignore_label_id` is 0, which
does not count. Where the input is their padding as well, that is 0, too, and not attended to; with
``keep_padding`` it is a symbol, as in their models. In text stand their own numbers, blanks between
them.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import tensorflow as tf

from ut_tf.data.arrays import read_array
from ut_tf.data.corpus.encoded_pairs import Array
from ut_tf.data.example_table import ExampleTable, example_order
from ut_tf.data.prepared import NotPreparedError
from ut_tf.data.problem import Problem
from ut_tf.data.text.codec import Board, TextCodec, join_symbols
from ut_tf.data.text.refusals import quoted, text_where
from ut_tf.errors import UserError, file_errors
from ut_tf.notices import note
from ut_tf.paths import expanded
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.own_files.questions import board_of
from ut_tf.storage.files import read_bounded
from ut_tf.storage.json_lines import unique_keys
from ut_tf.symbols import FIRST_SYMBOL_ID, PADDING_ID

DESCRIPTION_FILE = "dataset.json"
_ARRAYS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
_NUMBERS = ("pad_id", "vocab_size", "seq_len", "num_puzzle_identifiers")
_HELD_OUT_SHARE, _HELD_OUT_MOST = 0.1, 500
_LARGEST = 1_000_000
_BLOCK = 100_000


@dataclass(frozen=True)
class Description:
    """What dataset.json tells.

    Args:
      pad_id: padding of the inputs.
      ignore_label_id: a label that does not count; None: there is none.
      vocab_size: ids of inputs and labels.
      seq_len: positions of an example.
      num_puzzle_identifiers: different identifiers.
    """

    pad_id: int
    ignore_label_id: int | None
    vocab_size: int
    seq_len: int
    num_puzzle_identifiers: int

    @classmethod
    def read(cls, path: Path) -> "Description":
        """The description in a file.

        Raises:
          UserError: it cannot be read, or lacks something.
        """
        with file_errors(
            path,
            "expected the dataset.json of a data folder of HRM or TRM",
            also=(ValueError, RecursionError),
        ):
            values = json.loads(read_bounded(path), object_pairs_hook=unique_keys)
        given = values if isinstance(values, dict) else {}
        numbers = {name: given.get(name) for name in (*_NUMBERS, "ignore_label_id")}
        for name, value in numbers.items():
            if value is None and name == "ignore_label_id":
                continue
            least = 1 if name in ("vocab_size", "seq_len") else -_LARGEST
            if type(value) is not int or not least <= value <= _LARGEST:
                raise UserError(
                    f"{path}: {name!r} is {str(value)[:80]}: expected a whole number of at most"
                    f" {_LARGEST:,}."
                )
        if "all" not in given.get("sets", ["all"]):
            raise UserError(f"{path}: 'sets' is {given['sets']}: expected 'all' among them.")
        return cls(**numbers)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Part:
    """train/ or test/: what is described, and the arrays, of which inputs and labels are mapped."""

    description: Description
    inputs: Array
    labels: Array
    puzzle_identifiers: Array
    puzzle_indices: Array
    group_indices: Array

    @classmethod
    def read(cls, folder: Path) -> "Part":
        """The part in a folder.

        Raises:
          UserError: a file is missing or damaged, or files do not agree.
        """
        description = Description.read(folder / DESCRIPTION_FILE)
        arrays = {name: _array(folder / f"all__{name}.npy") for name in _ARRAYS}
        inputs, labels = arrays["inputs"], arrays["labels"]
        expected = (*inputs.shape[:1], description.seq_len)
        for name in ("inputs", "labels"):
            if arrays[name].shape != expected or not inputs.size:
                raise UserError(
                    f"{folder}/all__{name}.npy has the shape {arrays[name].shape}: expected"
                    f" examples and 'seq_len'={description.seq_len}, as many in inputs and labels."
                )
        puzzles, groups = arrays["puzzle_indices"], arrays["group_indices"]
        _check_bounds(folder / "all__puzzle_indices.npy", puzzles, len(inputs), "examples")
        _check_bounds(folder / "all__group_indices.npy", groups, len(puzzles) - 1, "puzzles")
        if arrays["puzzle_identifiers"].shape != (len(puzzles) - 1,):
            raise UserError(
                f"{folder}/all__puzzle_identifiers.npy has the shape"
                f" {arrays['puzzle_identifiers'].shape}: expected {(len(puzzles) - 1,)}, the"
                " puzzles of all__puzzle_indices.npy."
            )
        _check_ids(folder / "all__inputs.npy", inputs, description, None)
        _check_ids(folder / "all__labels.npy", labels, description, description.ignore_label_id)
        identifiers = arrays["puzzle_identifiers"]
        _check_identifiers(folder / "all__puzzle_identifiers.npy", identifiers, description)
        return cls(description, inputs, labels, identifiers, puzzles, groups)

    def rows(self, numbers: Array, keep_padding: bool = False) -> tuple[Array, Array, Array]:
        """Inputs and targets, int32 [numbers, seq_len], and identifiers of puzzles, int32
        [numbers], of examples by number.
        """
        inputs = self.inputs[numbers].astype(np.int64)
        labels = self.labels[numbers].astype(np.int64)
        counts = labels != self.description.ignore_label_id
        is_padding = ~counts & (inputs == self.description.pad_id) & (not keep_padding)
        puzzles = np.searchsorted(self.puzzle_indices, numbers, side="right") - 1
        return (
            np.where(is_padding, PADDING_ID, inputs + FIRST_SYMBOL_ID).astype(np.int32),
            np.where(counts, labels + FIRST_SYMBOL_ID, PADDING_ID).astype(np.int32),
            self.puzzle_identifiers[puzzles].astype(np.int32),
        )

    def training_and_held_out(self) -> tuple[Array, Array]:
        """Numbers of the examples for training, and of the first puzzle of each group that is held
        out for validation; groups are chosen by a fixed seed.
        """
        groups = len(self.group_indices) - 1
        count = min(int(np.ceil(_HELD_OUT_SHARE * groups)), _HELD_OUT_MOST)
        chosen = np.sort(np.random.default_rng(0).choice(groups, count, replace=False))
        begins = self.puzzle_indices[self.group_indices]
        is_held_out = np.zeros(len(self.inputs), bool)
        for group in chosen:
            is_held_out[begins[group] : begins[group + 1]] = True
        firsts = self.group_indices[chosen]
        held_out = [
            np.arange(self.puzzle_indices[puzzle], self.puzzle_indices[puzzle + 1])
            for puzzle in firsts
        ]
        return np.flatnonzero(~is_held_out), np.concatenate(held_out)


class PuzzleFolder(Problem):
    """Puzzles of a data folder of HRM or TRM, with an answer at every position.

    Where puzzles have different identifiers, these are the feature "puzzles", of which a model with
    ``num_puzzles`` learns a vector each.

    Args:
      folder: with train/ and test/.
      board: whose cells the positions are, row by row, such as 9x9; none: they are no cells.
      keep_padding: whether their padding is a symbol that is attended to, as in HRM and TRM.
      name: of the problem, for messages.
    """

    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("accuracy", "max")  # type: ignore[misc]
    method: ClassVar[str] = "aligned"
    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {"folder": "file"}

    def __init__(
        self,
        folder: str = "",
        board: str = "",
        keep_padding: bool = False,
        name: str = "puzzle_folder",
    ) -> None:
        self.name = name
        self._keep_padding = keep_padding
        self._board = board_of(board)
        self._path = Path(expanded(folder)) if folder else None
        self._parts: dict[str, Part] = {}

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Checks the folder; nothing is written.

        Raises:
          UserError: none is named, a file is missing or damaged, or files do not agree.
        """
        train, test = self._part("train").description, self._part("test").description
        if (train.vocab_size, train.seq_len) != (test.vocab_size, test.seq_len):
            raise UserError(
                f"{self._path}: 'vocab_size' and 'seq_len' are {train.vocab_size} and"
                f" {train.seq_len} in train, {test.vocab_size} and {test.seq_len} in test: expected"
                " the same."
            )
        if self._board and self._board.rows * self._board.columns != train.seq_len:
            rows, columns = self._board[:2]
            raise UserError(
                f"`board`={rows}x{columns} has {rows * columns} cells: expected 'seq_len',"
                f" {train.seq_len}."
            )
        if self.num_puzzles > 1:
            _note_puzzles(self._path, self.num_puzzles)

    @property
    def num_puzzles(self) -> int:
        """The number of different identifiers of puzzles."""
        parts = (self._part(name).description for name in ("train", "test"))
        return max(part.num_puzzle_identifiers for part in parts)

    def usual_spec(self) -> ProblemSpec:
        """That of Sudoku: padding, blank and digits."""
        size = FIRST_SYMBOL_ID + 11
        return ProblemSpec("tokens", "aligned", size, size, shared_vocab=True)

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens with aligned targets over one vocabulary: theirs, and two ids."""
        size = FIRST_SYMBOL_ID + self._part("train").description.vocab_size
        return ProblemSpec("tokens", "aligned", size, size, shared_vocab=True)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": int32 [seq_len], "targets": int32 [seq_len]}, and with several identifiers
        "puzzles", int32 []; `length` has no effect.
        """
        self.check_split(split)
        part = self._part("test" if split == "test" else "train")
        if split == "test":
            numbers = np.arange(len(part.inputs))
        else:
            numbers = part.training_and_held_out()[0 if split == "train" else 1]
        numbers = numbers[example_order(split, len(numbers), seed, epoch)]

        seq_len, names = part.description.seq_len, ["inputs", "targets"]
        if self.num_puzzles > 1:
            names.append("puzzles")

        def batch(places: Any) -> dict[str, Any]:
            # Rows are read from the files as they are asked for.
            rows = tf.numpy_function(
                lambda chosen: part.rows(numbers[chosen], self._keep_padding),
                [places],
                [tf.int32] * 3,
            )
            shapes = ([None, seq_len], [None, seq_len], [None])
            columns = zip(names, rows, shapes, strict=False)
            return {name: tf.ensure_shape(value, shape) for name, value, shape in columns}

        return ExampleTable(np.full(len(numbers), seq_len, np.int32), batch, is_padded=True)

    def text_codec(self, vocab_dir: Path) -> "NumbersCodec":
        """The codec of their ids."""
        return NumbersCodec(Description.read(vocab_dir / DESCRIPTION_FILE), self._board)

    def vocab_files(self, data_dir: Path) -> list[Path]:
        """The description of the training part."""
        return [] if self._path is None else [self._path / "train" / DESCRIPTION_FILE]

    def _part(self, name: str) -> Part:
        if self._path is None:
            raise NotPreparedError(
                f"problem {self.name} has no data: name it with `folder`, which has train/ and"
                " test/."
            )
        if self._path.is_file():
            raise UserError(
                f"`folder`={self._path} is a file: expected a folder of HRM or TRM with train/ and"
                " test/; problem aligned_files reads questions and answers from TSV, CSV and JSON"
                " lines, with `source_files`."
            )
        if name not in self._parts:
            self._parts[name] = Part.read(self._path / name)
        return self._parts[name]


class NumbersCodec(TextCodec):
    """Ids of a data folder as numbers with blanks between: "1 3 10".

    Args:
      description: of the folder.
      board: whose cells inputs are; None: they are none.
    """

    def __init__(self, description: Description, board: Board | None) -> None:
        super().__init__(name="numbers_codec")
        self.board = board
        size, self._length = description.vocab_size, description.seq_len
        self._largest = size - 1
        self.vocab_sizes = (FIRST_SYMBOL_ID + size,) * 2
        self.written = tf.constant(["", "", *map(str, range(size))])

    def encode_targets(self, texts: Any) -> Any:
        """int32 [batch, length] of strings [batch], padded with 0."""
        words = tf.strings.split(texts)
        numbers = tf.strings.to_number(words.flat_values, tf.int32)
        return words.with_flat_values(numbers + FIRST_SYMBOL_ID).to_tensor()

    def errors(self, *texts: Any) -> Any:
        """Refuses what is no id, and another number of them."""
        return self.target_errors(texts[0])

    def target_errors(self, texts: Any) -> Any:
        """Refuses what is no id, and another number of them."""
        words = tf.strings.split(texts)
        known = tf.reduce_any(words.flat_values[:, None] == self.written[None, 2:], axis=1)
        is_wrong = ~tf.reduce_all(words.with_flat_values(known), axis=1)
        count = words.row_lengths()
        is_wrong |= tf.logical_and(count > 0, count != self._length)
        told = (
            f" is not what this problem reads: expected {self._length} numbers from 0 to"
            f" {self._largest}"
        )
        return text_where(is_wrong, tf.strings.join([quoted(texts), told]))

    def decode(self, outputs: Any) -> Any:
        """The numbers, strings [batch], of symbols int32 [batch, length]."""
        return join_symbols(self.written, outputs)


@functools.cache
def _note_puzzles(folder: Path | None, count: int) -> None:
    note(
        f"{folder} has {count:,} identifiers of puzzles, which a model with memory_tokens and"
        f" num_puzzles={count} reads, and no other."
    )


def _array(path: Path) -> Array:
    with file_errors(
        path,
        "expected an array of whole numbers of a data folder of HRM or TRM; restore it",
        also=(ValueError, EOFError),
    ):
        array = read_array(path, mmap=True)
    if array.dtype.kind not in "iu":
        raise UserError(f"{path} holds {array.dtype}: expected whole numbers.")
    return array


def _check_bounds(path: Path, bounds: Array, count: int, what: str) -> None:
    rises = (
        bounds.ndim == 1 and len(bounds) > 1 and bool((np.diff(bounds.astype(np.int64)) > 0).all())
    )
    if not rises or bounds[0] != 0 or bounds[-1] != count:
        raise UserError(
            f"{path} does not divide the {count:,} {what}: expected numbers that rise from 0 to"
            f" {count:,}."
        )


def _check_identifiers(path: Path, identifiers: Array, description: Description) -> None:
    # Data of one puzzle only may say that there are none.
    count = max(1, description.num_puzzle_identifiers)
    is_wrong = (identifiers < 0) | (identifiers >= count)
    if is_wrong.any():
        raise UserError(
            f"{path}: the identifier {identifiers[is_wrong][0]} is none of"
            f" 'num_puzzle_identifiers'={description.num_puzzle_identifiers}: expected 0 to"
            f" {count - 1}."
        )


def _check_ids(path: Path, ids: Array, description: Description, ignored: int | None) -> None:
    for first in range(0, len(ids), _BLOCK):
        block = ids[first : first + _BLOCK]
        is_wrong = (block < 0) | (block >= description.vocab_size)
        if ignored is not None:
            is_wrong &= block != ignored
        if is_wrong.any():
            row = int(np.flatnonzero(is_wrong.any(axis=1))[0])
            raise UserError(
                f"{path}, example {first + row}: the id {block[is_wrong][0]} is none of"
                f" 'vocab_size'={description.vocab_size}: expected 0 to"
                f" {description.vocab_size - 1}."
            )
