"""The table of a codec: what is read as what, and what is refused.

How it is used::

    TABLE = Table(
        "digits",
        "algorithmic_copy_decimal40",
        reads={"12": [" 12", "1 2"]},                   # read as "12" is, in every way in
        refuses={"expected digits": ["1x2", "１２"]},    # a part of the sentence that is told
    )
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ut_tf.data.text.codec import TextCodec
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run

Example = tuple[Any, ...]
"""The texts of an example, one for each field; the sentences of a story may be a list."""
Spellings = Mapping[Any, Sequence[Any]]
"""Spellings by what they are read as, or by a part of the sentence about them. Of one field a text
is an example.
"""
NO_TEXTS: Spellings = {}
FEWEST = 20


def one_line(example: Example) -> str | None:
    """The line of a command for an example: its texts with tabs between. None: it has no line."""
    texts = [text for text in example if isinstance(text, str)]
    line = "\t".join(texts)
    fits = len(texts) == len(example) and line.count("\t") == len(texts) - 1
    return line if fits and "\n" not in line else None


def no_files(folder: Path) -> None:
    """The vocabulary of a codec that needs no file."""
    del folder


class Table(NamedTuple):
    """What a codec reads, and how.

    Fields:
      name: of the table.
      problem, arguments: a registered problem whose codec it is; in arguments "{folder}" stands for
        the test's.
      reads, refuses: spellings of inputs; of a language model those of prompts.
      reads_targets, refuses_targets: spellings of targets.
      line: what a command's file holds for an example.
      reads_lines, refuses_lines: blocks of lines, for commands alone.
      vocabulary: writes the codec's files into a folder.
      inputs, targets, max_words: kinds of the problem's spec.
    """

    name: str
    problem: str
    reads: Spellings
    refuses: Spellings
    reads_targets: Spellings = NO_TEXTS
    refuses_targets: Spellings = NO_TEXTS
    line: Callable[[Example], str | None] = one_line
    reads_lines: Mapping[Any, Sequence[str]] = {}
    refuses_lines: Mapping[str, Sequence[str]] = {}
    vocabulary: Callable[[Path], None] = no_files
    arguments: Mapping[str, Any] = {}
    inputs: Literal["tokens", "facts", "none"] = "tokens"
    targets: Literal["tokens", "aligned", "class", "word"] = "tokens"
    max_words: int = 0

    @property
    def size(self) -> int:
        """How many spellings there are."""
        spellings = (self.reads, self.refuses, self.reads_targets, self.refuses_targets)
        return sum(len(rows) for kind in spellings for rows in kind.values())

    def spec(self, codec: TextCodec) -> ProblemSpec:
        """The problem's spec with the sizes of a codec's vocabulary."""
        assert codec.vocab_sizes is not None
        return ProblemSpec(self.inputs, self.targets, *codec.vocab_sizes, self.max_words)


def as_example(texts: Any) -> Example:
    """The texts of an example; of one field a text is one."""
    return texts if isinstance(texts, tuple) else (texts,)


def untrained(table: Table, folder: Path, hparams: str) -> Run:
    """A run of the table's problem with its vocabulary, without data and checkpoints."""
    arguments = {
        name: value.format(folder=folder) if isinstance(value, str) else value
        for name, value in table.arguments.items()
    }
    plan = Run.plan(
        table.problem,
        "ut_algorithmic",
        hparams,
        output_dir=folder / "run",
        data_dir=folder / "data",
        tmp_dir=folder / "data",
        problem_args=arguments,
    )
    files = plan.make_problem().vocab_files(folder / "data")
    if files:
        files[0].parent.mkdir(parents=True)
        table.vocabulary(files[0].parent)
    run = plan._write()
    return dataclasses.replace(run, spec=table.spec(run.text_codec()))._write()
