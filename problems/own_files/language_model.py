"""A language model of the user's own text.

How it is used::

    Run.create("lm_files", "ut_lm", problem_args={"source_files": ["book.txt"]})

A line that is not empty is a sequence of subwords and an end symbol; the model is trained on
windows of the lines one after the other. Without files for validation some stretches of the text
are held out.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from ut_tf.data.arguments import file_paths
from ut_tf.data.chunks import chunks
from ut_tf.data.corpus.corpus import VOCAB_FILE
from ut_tf.data.corpus.encoded_pairs import (
    Array,
    Side,
    pad_stretches,
    read_counts,
    read_shards,
    window_pool,
    windows,
)
from ut_tf.data.example_pools import ExamplePools, deal_shards
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.prepared import DamageError
from ut_tf.data.split_of import nfc, same_text, separate_lines
from ut_tf.data.text.subword_files import AnySubwords, read_subwords
from ut_tf.data.text.subwords import SubwordOptions
from ut_tf.errors import UserError, counted
from ut_tf.notices import note, warn
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.own_files.codec import LinesCodec
from ut_tf.problems.own_files.large_text import LargeText, TextSize, lines_of, text_size
from ut_tf.problems.own_files.problem import (
    EARLIER_ARGUMENTS,
    Arrays,
    Files,
    OwnFiles,
    PreparedSplits,
    Settings,
)
from ut_tf.storage.files import write_bytes

_DEFAULT_VOCAB_SIZE = 8000
# The text is cut into so many stretches, of which so many are held out.
_STRETCHES, _HELD_OUT = 50, 2
# Characters of a training text that is kept in memory.
LARGEST_TEXT = 250_000_000
_ENCODED = 10_000


class LmFiles(OwnFiles):
    """Plain text from files.

    Args:
      source_files: for training.
      dev_source_files: for validation; none: parts of the training text are held out.
      test_source_files: for ut-eval; none: the validation text is judged.
      window: subwords in a training example.
      keep_blanks: whether indentation, runs of blanks, blanks at a line's end and tabs are text;
        otherwise a run is one blank.
      fit_vocabulary: whether a small text has fewer subwords than `vocab_size`, so that each is
        seen often enough to be learnt; otherwise as many as it supports.
      disjoint_splits: whether nothing that is held out for validation is trained on, however its
        blanks and characters are written.
      name: of the problem, for messages.
      **options: see ``SubwordOptions``; `vocab_size` is 8000 if it is 0.
    """

    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {
        **OwnFiles.file_arguments,
        "vocab_file": "file",
    }
    earlier_arguments: ClassVar[Mapping[str, Any]] = EARLIER_ARGUMENTS
    needed: ClassVar[tuple[str, ...]] = (VOCAB_FILE,)
    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("loss", "min")  # type: ignore[misc]
    method: ClassVar[str] = "language_model"
    unit: ClassVar[str] = "line"

    def __init__(
        self,
        source_files: Files | str = (),
        dev_source_files: Files | str = (),
        test_source_files: Files | str = (),
        window: int = 128,
        keep_blanks: bool = False,
        fit_vocabulary: bool = True,
        disjoint_splits: bool = True,
        name: str = "lm_files",
        **options: Unpack[SubwordOptions],
    ) -> None:
        if window < 2:
            raise UserError(f"`window`={window}: expected at least 2 subwords.")
        given = (source_files, dev_source_files, test_source_files)
        files = dict(zip(self.splits, map(file_paths, given), strict=True))
        self._window = window
        self._keeps_blanks = keep_blanks
        self._settings = Settings.of(_DEFAULT_VOCAB_SIZE, options, fit_vocabulary, keep_blanks)
        identity = [self._settings.decisive(), None]
        super().__init__(name, files, identity, self._settings.given, disjoint_splits)

    def spec(self, data_dir: Path) -> ProblemSpec:
        """No inputs, tokens as targets."""
        size = int(self.summary(data_dir)["vocab_size"])
        return ProblemSpec("none", "tokens", input_vocab_size=0, target_vocab_size=size)

    def usual_spec(self) -> ProblemSpec:
        """Returns the size of the vocabulary that is asked for."""
        return ProblemSpec("none", "tokens", 0, self._settings.wanted_size)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"targets": int32 [length]}: windows of the text; of "train" they begin elsewhere in
        each epoch. `length` has no effect. The split is read into memory, whatever its size.
        """
        import tensorflow as tf

        text = self.loaded(split, data_dir)
        rng = np.random.default_rng([seed % 2**63, epoch]) if split == "train" else None
        begins, lengths = windows(len(text), self._window, rng)
        with tf.device("/CPU:0"):
            first, sizes = tf.constant(begins, tf.int64), tf.constant(lengths, tf.int32)

        def batch(numbers: Any) -> dict[str, Any]:
            begin, size = tf.gather(first, numbers), tf.gather(sizes, numbers)
            return {"targets": pad_stretches(text, begin, size)}

        return ExampleTable(lengths.astype(np.int32), batch)

    def example_pools(self, data_dir: Path, seed: int, epoch: int) -> ExamplePools | None:
        """Pools of windows of a text above ``LARGEST_TEXT`` characters; None: it is smaller."""
        if not self._is_sharded("train", data_dir):
            return None
        read = functools.partial(window_pool, size=self._window)
        shards, reading = self._shards(data_dir), self._folder(data_dir).reading
        return deal_shards(("targets",), shards, seed, epoch, read, reading)

    def text_codec(self, vocab_dir: Path) -> LinesCodec:
        """The codec of lines to be scored."""
        return LinesCodec(vocab_dir, self._keeps_blanks)

    def make(self, folder: Path) -> PreparedSplits:
        files = {split: files for split, files in self._own_files.items() if files}
        size = text_size(files["train"])
        self._tell_of_lost_blanks(size)
        if size.characters > LARGEST_TEXT:
            return self._make_large(folder, files, size)
        splits = {split: self._lines(paths) for split, paths in files.items()}
        if "validation" not in splits:
            splits["train"], splits["validation"] = self._held_out(splits["train"])
        subwords = self._settings.subwords(splits["train"])
        write_bytes(folder / VOCAB_FILE, subwords.model)
        encoded = {split: _encoded(lines, subwords) for split, lines in splits.items()}
        return self._settings.made(self.name, subwords, encoded, {})

    def _make_large(
        self, folder: Path, files: Mapping[str, Sequence[Path]], size: TextSize
    ) -> PreparedSplits:
        """As ``make``, with the training text in shards, and never in memory."""
        if "validation" not in files:
            raise UserError(
                f"{self.name}: the training text has {size.characters:,} characters, of which none"
                f" are held out beyond {LARGEST_TEXT:,}: give a text for validation"
                " (`dev_source_files`), such as its last thousand lines, and the others for"
                " training."
            )
        text = LargeText(files["train"], size, self._keeps_blanks)
        splits = {split: self._lines(files[split]) for split in files if split != "train"}
        text.begin(folder, self._settings.given)
        vocab_file = folder / VOCAB_FILE
        if not vocab_file.is_file():
            model = self._settings.subwords(text.sample(LARGEST_TEXT)).model
            write_bytes(vocab_file, model)
        subwords = read_subwords(vocab_file)
        counts = text.encode(folder, vocab_file)
        encoded = {split: _encoded(lines, subwords) for split, lines in splits.items()}
        sharded = {"sharded": {"train": counts["kept"]}}
        return self._settings.made(self.name, subwords, encoded, sharded)

    def _held_out(self, lines: list[str]) -> tuple[list[str], list[str]]:
        train, held_out = _held_out(lines)
        if not self._keeps_apart:
            return train, held_out
        apart = separate_lines(train, held_out, nfc if self._keeps_blanks else same_text)
        if all(apart):
            return apart
        warn(
            f"{self.name}: all lines that are held out for validation stand in the training text,"
            " too, so that validation says nothing of other text: give other text"
            " (`dev_source_files`)."
        )
        return train, held_out

    def _lines(self, files: Sequence[Path]) -> list[str]:
        return list(lines_of(files, self._keeps_blanks))

    def _tell_of_lost_blanks(self, size: TextSize) -> None:
        if size.spaced and not self._keeps_blanks:
            note(
                f"{size.spaced:,} of {counted(size.lines, 'line')} are indented or have runs of"
                " blanks, which become one blank or none: `problem_args.keep_blanks`=true keeps"
                " them."
            )
        if size.marked:
            warn(
                f"{counted(size.marked, 'line')} with U+2581, which the subwords cannot tell from a"
                " blank: it becomes one."
            )

    def _is_sharded(self, split: str, data_dir: Path) -> bool:
        return split in self.summary(data_dir).get("sharded", {})

    def _shards(self, data_dir: Path) -> list[Path]:
        folder = self._folder(data_dir)
        with folder.reading():
            paths = sorted(folder.path.glob("train-*.npz"))
            lines = self.summary(data_dir)["sharded"]["train"]
            if sum(read_counts(path)["kept"] for path in paths) != lines:
                raise DamageError(f"the shards of train do not have the {lines} lines written")
        return paths

    def load(self, split: str, data_dir: Path) -> Any:
        """The ids of the whole text."""
        import tensorflow as tf

        if self._is_sharded(split, data_dir):
            paths = self._shards(data_dir)
            with self._folder(data_dir).reading():
                ids = read_shards(paths).targets.ids
        else:
            ids = self.arrays(split, data_dir)["ids"]
        with tf.device("/CPU:0"):
            return tf.constant(ids)


def _encoded(lines: Sequence[str], subwords: AnySubwords) -> Arrays:
    """The ids of lines; a part of them at a time is a list of Python's numbers, which take twenty
    times the memory.
    """
    parts = [Side.of(subwords.encode(part), subwords.size) for part in chunks(lines, _ENCODED)]
    lengths = np.concatenate([part.lengths for part in parts])
    return {"ids": np.concatenate([part.ids for part in parts]), "lengths": lengths}


def _held_out(lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines for training and for validation: some stretches, chosen by a fixed seed."""
    if len(lines) < 2:
        raise UserError(
            f"{counted(len(lines), 'line')} of text leaves none to hold out for validation: give"
            " more, or files for validation (`dev_source_files`)."
        )
    stretches = [[lines[n] for n in part] for part in _parts(len(lines))]
    count = max(1, len(stretches) * _HELD_OUT // _STRETCHES)
    chosen = {*np.random.default_rng(0).choice(len(stretches), count, replace=False).tolist()}
    train = [line for n, part in enumerate(stretches) if n not in chosen for line in part]
    return train, [line for n in sorted(chosen) for line in stretches[n]]


def _parts(count: int) -> list[Array]:
    """The numbers below `count` in stretches of about equal length."""
    return np.array_split(np.arange(count), min(count, _STRETCHES))
