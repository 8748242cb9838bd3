"""A language model of the user's own text.

How it is used::

    Run.create("lm_files", "ut_lm", problem_args={"source_files": ["book.txt"]})

A line that is not empty is a sequence of subwords and an end symbol; the model is trained on
windows of the lines one after the other. Without files for validation some stretches of the text
are held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from ut_tf.data.arguments import file_paths
from ut_tf.data.corpus.corpus import VOCAB_FILE
from ut_tf.data.corpus.encoded_pairs import Array, Side
from ut_tf.data.corpus.parallel_text import read_lines
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.text.subwords import SubwordOptions
from ut_tf.errors import UserError, counted
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.own_files.codec import LinesCodec
from ut_tf.problems.own_files.problem import Encoded, Files, OwnFiles, Settings
from ut_tf.storage.files import write_bytes

_DEFAULT_VOCAB_SIZE = 8000
# The text is cut into so many stretches, of which so many are held out.
_STRETCHES, _HELD_OUT = 50, 2


class LmFiles(OwnFiles):
    """Plain text from files.

    Args:
      source_files: for training.
      dev_source_files: for validation; none: parts of the training text are held out.
      test_source_files: for ut-eval; none: the validation text is judged.
      window: subwords in a training example.
      name: of the problem, for messages.
      **options: see ``SubwordOptions``; a small text has fewer subwords than `vocab_size`, which is
        8000 if it is 0.
    """

    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("loss", "min")  # type: ignore[misc]
    method: ClassVar[str] = "language_model"
    unit: ClassVar[str] = "line"

    def __init__(
        self,
        source_files: Files | str = (),
        dev_source_files: Files | str = (),
        test_source_files: Files | str = (),
        window: int = 128,
        name: str = "lm_files",
        **options: Unpack[SubwordOptions],
    ) -> None:
        if window < 2:
            raise UserError(f"`window`={window}: expected at least 2 subwords.")
        given = (source_files, dev_source_files, test_source_files)
        files = dict(zip(self.splits, map(file_paths, given), strict=True))
        self._window = window
        self._texts: dict[tuple[Path, str], Any] = {}
        settings = Settings.of(_DEFAULT_VOCAB_SIZE, options)
        super().__init__(name, settings, files, None)

    def spec(self, data_dir: Path) -> ProblemSpec:
        """No inputs, tokens as targets."""
        size = int(self.summary(data_dir)["vocab_size"])
        return ProblemSpec("none", "tokens", input_vocab_size=0, target_vocab_size=size)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"targets": int32 [length]}: windows of the text; of "train" they begin elsewhere in
        each epoch. `length` has no effect.
        """
        del length
        import tensorflow as tf

        ids = self.loaded(split, data_dir).side.ids
        rng = np.random.default_rng([seed % 2**63, epoch]) if split == "train" else None
        begins, lengths = _windows(len(ids), self._window, rng)
        key = (data_dir, split)
        with tf.device("/CPU:0"):
            if key not in self._texts:
                self._texts[key] = tf.constant(ids)
            first, sizes = tf.constant(begins, tf.int64), tf.constant(lengths, tf.int32)

        text = self._texts[key]

        def batch(numbers: Any) -> dict[str, Any]:
            size = tf.gather(sizes, numbers)[:, tf.newaxis]
            columns = tf.range(tf.reduce_max(size))[tf.newaxis, :]
            places = tf.gather(first, numbers)[:, tf.newaxis] + tf.cast(columns, tf.int64)
            window = tf.gather(text, tf.minimum(places, tf.size(text, tf.int64) - 1))
            return {"targets": tf.where(columns < size, tf.cast(window, tf.int32), 0)}

        return ExampleTable(lengths.astype(np.int32), batch)

    def text_codec(self, vocab_dir: Path) -> LinesCodec:
        """The codec of lines to be scored."""
        return LinesCodec(vocab_dir)

    def make(self, folder: Path) -> tuple[Mapping[str, Encoded], int, Mapping[str, Any]]:
        splits = {split: _lines(files) for split, files in self._own_files.items() if files}
        if "validation" not in splits:
            splits["train"], splits["validation"] = _held_out(splits["train"])
        subwords = self._settings.subwords(splits["train"])
        write_bytes(folder / VOCAB_FILE, subwords.model)
        encoded = {}
        for split, lines in splits.items():
            side = Side.of(subwords.encode(lines), subwords.size)
            encoded[split] = Encoded(side, np.zeros(0, np.int32))
        return encoded, subwords.size, {}


def _lines(files: Sequence[Path]) -> list[str]:
    """The lines that are not empty.

    Raises:
      UserError: a file cannot be read, is no UTF-8, or has no such line; names file and line.
    """
    lines: list[str] = []
    for path in files:
        if not path.is_file():
            raise UserError(f"{path} is no file: expected plain text.")
        own = [line.strip() for line in read_lines(path) if line.strip()]
        if not own:
            raise UserError(f"{path} has no line that is not empty: expected plain text.")
        lines += own
    return lines


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


def _windows(total: int, size: int, rng: np.random.Generator | None) -> tuple[Array, Array]:
    """Begin and length, int64 [windows] each, of windows that cover the text once: in an order and
    from a place that `rng` draws, or in the text's order.
    """
    first = 0 if rng is None else int(rng.integers(min(size, total)))
    begins = np.unique([0, *range(first, total, size)])
    lengths = np.diff([*begins, total])
    if rng is None:
        return begins, lengths
    order = rng.permutation(len(begins))
    return begins[order], lengths[order]
