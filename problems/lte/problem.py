"""Learning to execute: programs and their results, digit strings to be copied, doubled or reversed
(arXiv 1807.03819, Appendix D.4).

The difficulty of an example is the number of digits of its numerals and, for programs, the number
of nested operations. Training follows the mix strategy of "Learning to Execute" (arXiv 1410.4615):
both are uniform from 1 to the target, drawn for each example. A share of the training examples may
have the target difficulty instead. Evaluation has the target difficulty.

The checksum of an input decides its split, so that no input of one split appears in another,
whatever the seed, the epoch and the difficulty; one of ten inputs tests, one of ten validates.
"""

import functools
import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.split_of import EmptySplitError
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.lte import programs as lte_programs
from ut_tf.problems.lte import zaremba as lte_zaremba
from ut_tf.problems.lte.codec import CharacterCodec, text_rows
from ut_tf.symbols import FIRST_SYMBOL_ID

Task = Literal["program", "control", "addition", "copy", "double", "reverse"]
Form = Literal["expressions", "statements"]
Write = Callable[[random.Random, int, int], tuple[str, str]]
"""From draws, the length of numerals and the nesting to an input and its target."""

_PROGRAM_TARGET = (5, 2)
_MEMORY_TARGET = (55, 1)
_SPLITS_BY_REST = {0: "test", 1: "validation"}
_SHARES = 10
# A split whose share of the inputs is a tenth is found within so many draws per example, unless
# there is hardly any input.
_DRAWS_PER_EXAMPLE = 200


class LearningToExecute(Problem):
    """Programs and digit strings, written without end.

    Args:
      task: "program", "control" and "addition" compute, "copy", "double" and "reverse" memorise.
      form: of programs: "expressions", or "statements" with variables and print, as in the paper of
        Zaremba and Sutskever (arXiv 1410.4615).
      length: the target's digits per numeral; 0: 5 for programs, 55 for digit strings.
      nesting: the target's operations per program; 0: 2.
      operations: names of the operations of programs, with + between, instead of the task's: of
        add, subtract, multiply, if, for in expressions, of pair, multiply, if, loop, assign in
        statements.
      train_operations: names of the operations of the training examples, if these are to differ
        from those judged; for example with sums, from which a model learns digits and carries
        before loops.
      little_endian: the model writes the results of programs from their last digit to their first.
        Texts keep the usual order.
      target_share: share of the training examples that have the target difficulty, from 0 to 1; the
        others are mixed.
      train_examples: examples in one epoch.
      validation_examples: examples of the target difficulty, decoded greedily, that choose the
        checkpoint; as many of mixed difficulty are teacher-forced.
      test_examples: examples judged.
      name: the problem's name, for messages.
    """

    def __init__(
        self,
        task: Task = "program",
        form: Form = "expressions",
        length: int = 0,
        nesting: int = 0,
        operations: str = "",
        train_operations: str = "",
        little_endian: bool = False,
        target_share: float = 0.0,
        train_examples: int = 100_000,
        validation_examples: int = 300,
        test_examples: int = 1000,
        name: str = "",
    ) -> None:
        self.name = name or f"lte_{task}"
        self._memorises = task in lte_programs.RESULTS
        default_length, default_nesting = _MEMORY_TARGET if self._memorises else _PROGRAM_TARGET
        self.length = at_least(0, "length", length) or default_length
        self.nesting = at_least(0, "nesting", nesting) or default_nesting
        if not 0.0 <= target_share <= 1.0:
            raise UserError(f"`target_share`={target_share}: expected a number from 0 to 1.")
        if little_endian and self._memorises:
            raise UserError(
                f"`little_endian`=true: {self.name} is about the order of its digits; it is for"
                " program, control and addition."
            )
        self._little_endian = little_endian
        self._target_share = target_share
        self.train_examples = at_least(1, "train_examples", train_examples)
        self.validation_examples = at_least(1, "validation_examples", validation_examples)
        self.test_examples = at_least(1, "test_examples", test_examples)
        self.selection_metric = (f"length_{self.length}/char_acc", "max")
        self._write, self._symbols = self._writer(task, form, operations)
        self._write_training = self._write
        if train_operations:
            self._write_training = self._writer(task, form, train_operations, "train_operations")[0]

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Does nothing: the examples are written when they are read."""

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens to tokens over one vocabulary: padding, end, characters of inputs and targets."""
        size = FIRST_SYMBOL_ID + len(self._symbols)
        return ProblemSpec("tokens", "tokens", size, size, shared_vocab=True)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": [input length + 1], "targets": [target length + 1]}, int32; (seed, epoch)
        decide "train" only.

        Without `length` the examples are of mixed difficulty. With it each numeral has `length`
        digits, and the nesting is the target's. One epoch takes about a second and some megabytes.
        """
        if length is not None:
            at_least(1, "length", length)
        pairs = self.pairs(split, seed, epoch, length)
        inputs, input_lengths = text_rows([source for source, _ in pairs], self._symbols)
        step = -1 if self._little_endian else 1
        targets, target_lengths = text_rows([target[::step] for _, target in pairs], self._symbols)
        tensors = {"inputs": tf.constant(inputs), "targets": tf.constant(targets)}

        def batch(numbers: Any) -> dict[str, Any]:
            return {
                name: tf.cast(tf.gather(rows, numbers), tf.int32) for name, rows in tensors.items()
            }

        return ExampleTable(tf.maximum(input_lengths, target_lengths).numpy(), batch)

    def pairs(
        self, split: str, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> list[tuple[str, str]]:
        """The texts of inputs and targets of ``examples``; the same arguments.

        Raises:
          UserError: there is no such split.
          EmptySplitError: no input of so few digits belongs to it.
        """
        self.check_split(split)
        count = {
            "train": self.train_examples,
            "validation": self.validation_examples,
            "test": self.test_examples,
        }[split]
        draws = random.Random(f"{split}/{seed}/{epoch}" if split == "train" else split)
        pairs: list[tuple[str, str]] = []
        share = self._target_share if split == "train" else 0.0
        write = self._write_training if split == "train" else self._write
        for _ in range(_DRAWS_PER_EXAMPLE * (count + 10)):
            # Without a share nothing is drawn for it: such runs keep their examples.
            at_target = share > 0.0 and draws.random() < share
            fixed = length or (self.length if at_target else 0)
            digits = fixed or 1 + draws.randrange(self.length)
            nesting = self.nesting if fixed else 1 + draws.randrange(self.nesting)
            pair = write(draws, digits, nesting)
            if split_of(pair[0]) == split:
                pairs.append(pair)
            if len(pairs) == count:
                return pairs
        most = length or self.length
        raise EmptySplitError(
            f"{self.name} has no inputs of {most} digits or less that belong to its {split} split:"
            " set a larger length."
        )

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """One greedily decoded set for each length of numerals, by default the target's."""
        return [
            EvaluationSet(name=f"length_{length}", split="test", method="greedy", length=length)
            for length in lengths or (self.length,)
        ]

    def validation_sets(self) -> list[EvaluationSet]:
        """Training's mixed difficulties, teacher-forced, and the target's, decoded greedily."""
        return [
            EvaluationSet(name="", split="validation", method="teacher_forced"),
            EvaluationSet(
                name=f"length_{self.length}",
                split="validation",
                method="greedy",
                length=self.length,
            ),
        ]

    def text_codec(self, vocab_dir: Path) -> CharacterCodec:
        """The codec of programs and results, which needs no file."""
        return CharacterCodec(self._symbols, self._little_endian)

    def _writer(
        self, task: Task, form: Form, operations: str, argument: str = "operations"
    ) -> tuple[Write, str]:
        """The function that writes an example, and the characters that it may hold; `argument` is
        the one that `operations` were given as.
        """
        if self._memorises:
            if operations or form != "expressions":
                raise UserError(
                    f"{self.name}: {task} takes digit strings; {argument} and form are for program,"
                    " control and addition."
                )
            return (
                functools.partial(lte_programs.write_digits, result=lte_programs.RESULTS[task]),
                lte_programs.DIGITS,
            )
        if form == "expressions":
            names = _names(argument, operations, lte_programs.SETS[task], lte_programs.OPERATIONS)
            chosen = [lte_programs.OPERATIONS[name] for name in names]
            return (
                functools.partial(lte_programs.write_program, operations=chosen),
                lte_programs.SYMBOLS,
            )
        if self.nesting > len(lte_zaremba.LETTERS):
            raise UserError(
                f"`nesting`={self.nesting}: expected at most {len(lte_zaremba.LETTERS)}, one letter"
                " for each variable."
            )
        default_names, signs = lte_zaremba.SETS[task]
        names = _names(argument, operations, default_names, lte_zaremba.OPERATIONS)
        return (
            functools.partial(lte_zaremba.write_printing_program, operations=names, signs=signs),
            lte_zaremba.SYMBOLS,
        )


def split_of(text: str) -> str:
    """The split that an input belongs to; its CRC-32 decides."""
    return _SPLITS_BY_REST.get(zlib.crc32(text.encode()) % _SHARES, "train")


def _names(
    argument: str, operations: str, default: Sequence[str], known: Iterable[str]
) -> tuple[str, ...]:
    """The names in `operations`, "add+if", given as `argument`; without any, the default ones."""
    names = tuple(name.strip() for name in operations.split("+")) if operations else tuple(default)
    wrong = [name for name in names if name not in known]
    if wrong:
        raise UserError(
            f"`{argument}`={operations}: {wrong[0]!r} is none of {', '.join(known)}; name some of"
            " them with + between."
        )
    return names
