"""Copy, reverse and addition of digit strings (Section 3.3 of arXiv 1807.03819; tensor2tensor's
algorithmic problems).

Trained on lengths up to 40 and judged at ten times that. Ids: digit + 2; 1 ends inputs and targets;
in addition base + 2 separates the summands. Addition is little-endian: two summands of 1..20 and
1..(39 - first) digits, both counted with the separator in the length of the example, without
leading zeros, and their sum.

How it works: examples are made in graph, in blocks, by stateless draws from (seed, epoch, block),
so that an epoch needs no file and is the same whenever it is made again.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.data.split_of import EmptySplitError, belong, first_of_each
from ut_tf.errors import UserError, counted
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.algorithmic.codec import DigitCodec
from ut_tf.symbols import END_ID, FIRST_SYMBOL_ID

_BLOCK = 1000
# Of the blocks with as many inputs as a split has: within so many times those, a tenth of all
# inputs is found, or every one where there are no more of them.
_MOST_BLOCKS = 100
_OPERATIONS = ("copy", "reverse", "addition")
# First component of the seed of each split, so that no two splits share their draws.
_SPLIT_SEEDS = {"train": 0, "validation": 1, "test": 2}
MIDDLE = "middle"


class Algorithmic(Problem):
    """Digit strings to be copied, reversed or added, generated without end.

    Args:
      operation: "copy", "reverse" or "addition".
      base: number of digits, 2 or 10.
      max_length: the longest training example (end of sequence not counted); lengths are uniform
        from 1.
      train_examples: examples in one epoch.
      validation_length: length of the greedily decoded validation examples that choose the
        checkpoint: beyond those of training, because accuracy there peaks early and erodes, and
          short of those of the final test.
      validation_examples: how many of those there are.
      test_examples: examples judged at lengths up to max_length; of short lengths each input of the
        split once.
      long_test_examples: examples judged at greater lengths, where decoding is slow.
      disjoint_splits: whether an input's content decides its split, so that none is both trained on
        and judged; otherwise short ones are.
      name: the problem's name, for messages.
    """

    earlier_arguments: ClassVar[Mapping[str, Any]] = {"disjoint_splits": False}

    def __init__(
        self,
        operation: Literal["copy", "reverse", "addition"] = "copy",
        base: int = 10,
        max_length: int = 40,
        train_examples: int = 100_000,
        validation_length: int = 80,
        validation_examples: int = 100,
        test_examples: int = 1000,
        long_test_examples: int = 200,
        disjoint_splits: bool = True,
        name: str = "",
    ) -> None:
        if operation not in _OPERATIONS:
            raise UserError(f"`operation`={operation!r}: expected one of {', '.join(_OPERATIONS)}.")
        self.operation = operation
        self.base = at_least(2, "base", base)
        self.shortest = 3 if operation == "addition" else 1
        self.max_length = at_least(self.shortest, "max_length", max_length)
        self.train_examples = at_least(1, "train_examples", train_examples)
        self.validation_length = at_least(self.shortest, "validation_length", validation_length)
        self.validation_examples = at_least(1, "validation_examples", validation_examples)
        self.test_examples = at_least(1, "test_examples", test_examples)
        self.long_test_examples = at_least(1, "long_test_examples", long_test_examples)
        self.disjoint_splits = disjoint_splits
        self.name = name or f"algorithmic_{operation}"
        self.selection_metric = (f"{MIDDLE}/char_acc", "max")
        self._generators: dict[int | None, Any] = {}

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        """Does nothing: the examples are made when they are read."""

    def spec(self, data_dir: Path) -> ProblemSpec:
        """Tokens to tokens over one vocabulary: padding, end, digits, the separator of sums."""
        size = FIRST_SYMBOL_ID + self.base + (1 if self.operation == "addition" else 0)
        return ProblemSpec("tokens", "tokens", size, size, shared_vocab=True)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        """{"inputs": [length + 1], "targets": [target length + 1]}, int32; (seed, epoch) decide
        "train" only.

        Without `length` the examples have the lengths of training. With it their inputs have
        exactly `length` symbols before the end. One epoch, generated at once, is a few megabytes.
        """
        self.check_split(split)
        if length is not None:
            at_least(self.shortest, "length", length)
        stream = tf.constant([_SPLIT_SEEDS[split], 0], tf.int64)
        if split == "train":
            stream = _fold_in(_fold_in(stream, seed), epoch)
        inputs, targets, sizes = self._drawn(split, stream, length)

        def batch(numbers: Any) -> dict[str, Any]:
            return {"inputs": tf.gather(inputs, numbers), "targets": tf.gather(targets, numbers)}

        return ExampleTable(sizes.numpy().max(axis=1).astype("int32"), batch)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """One greedily decoded set a length; default: training's longest, and ten times that."""
        return [
            EvaluationSet(
                name=f"length_{length}",
                split="test",
                method="greedy",
                length=length,
                max_examples=self._examples_at(length),
            )
            for length in lengths or (self.max_length, 10 * self.max_length)
        ]

    def validation_sets(self) -> list[EvaluationSet]:
        """The lengths of training, teacher-forced, and a greedily decoded set at a length between
        training and test.
        """
        return [
            EvaluationSet(name="", split="validation", method="teacher_forced"),
            EvaluationSet(
                name=MIDDLE,
                split="validation",
                method="greedy",
                length=self.validation_length,
                max_examples=self.validation_examples,
            ),
        ]

    def text_codec(self, vocab_dir: Path) -> DigitCodec:
        """The codec of digit strings, which needs no file."""
        return DigitCodec(self.operation, self.base)

    def _drawn(self, split: str, stream: Any, length: int | None) -> Iterator[Any]:
        """Inputs, targets and their sizes of as many examples as the split has.

        Raises:
          EmptySplitError: no input of so few symbols belongs to the split.
        """
        generate, count = self._generator(length), self._count(split, length)
        # Longer ones are not trained on.
        divided = self.disjoint_splits and (length or 0) <= self.max_length
        # The same input judged twice is no second example.
        once = self.disjoint_splits and length is not None and split != "train"
        most = math.ceil(count / _BLOCK) * (_MOST_BLOCKS if divided or once else 1)
        blocks: list[dict[str, Any]] = []
        for number in range(most):
            block = generate(stream, tf.constant(number, tf.int64))
            if divided:
                mask = belong(block["inputs"].numpy(), split)
                block = {name: tf.boolean_mask(rows, mask) for name, rows in block.items()}
            blocks = [_without_repetitions([*blocks, block])] if once else [*blocks, block]
            made = sum(len(block["inputs"]) for block in blocks)
            if made >= count:
                break
        if not made:
            raise EmptySplitError(
                f"{self.name} has no inputs of {counted(length or self.max_length, 'symbol')}"
                f"{'' if length else ' or less'} that belong to its {split} split: set a larger"
                " length."
            )
        return (
            tf.concat([block[name] for block in blocks], 0)[:count]
            for name in ("inputs", "targets", "sizes")
        )

    def _examples_at(self, length: int) -> int:
        return self.test_examples if length <= self.max_length else self.long_test_examples

    def _count(self, split: str, length: int | None) -> int:
        """The number of examples of a split: of a given length at least as many as are judged."""
        count = {
            "train": self.train_examples,
            "validation": 10 * self.max_length,
            "test": self.test_examples,
        }[split]
        if length is None or split == "train":
            return count
        return max(
            count, self.validation_examples if split == "validation" else self._examples_at(length)
        )

    def _generator(self, length: int | None) -> Any:
        """Returns the graph from a stream's seed, int64 [2], and a block's number to what
        ``_block`` returns; it is traced once.
        """
        if length not in self._generators:

            def generate(stream: Any, block: Any) -> dict[str, Any]:
                return self._block(_fold_in(stream, block), length)

            # Concrete, since TensorFlow would count the traces of all lengths together and warn of
            # them.
            function = tf.function(
                generate,
                input_signature=[tf.TensorSpec([2], tf.int64), tf.TensorSpec([], tf.int64)],
                autograph=False,
            )
            self._generators[length] = function.get_concrete_function()
        return self._generators[length]

    def _block(self, seed: Any, length: int | None) -> dict[str, Any]:
        """Returns `_BLOCK` padded examples and, as "sizes" [_BLOCK, 2], how many symbols of their
        inputs and targets count.
        """
        if self.operation == "addition":
            return _addition(seed, self.base, self.max_length, length)
        return _strings(
            seed, self.base, self.max_length, length, reverse=self.operation == "reverse"
        )


def _without_repetitions(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """The examples of all blocks, in one, but those whose inputs stand before them."""
    every = {name: tf.concat([block[name] for block in blocks], 0) for name in blocks[0]}
    numbers = first_of_each(every["inputs"].numpy())
    return {name: tf.gather(rows, numbers) for name, rows in every.items()}


def _strings(
    seed: Any, base: int, max_length: int, length: int | None, reverse: bool
) -> dict[str, Any]:
    width = length or max_length
    digits = _uniform(_fold_in(seed, 0), [_BLOCK, width], 0, base) + FIRST_SYMBOL_ID
    if length:
        lengths = tf.fill([_BLOCK], width)
    else:
        lengths = _uniform(_fold_in(seed, 1), [_BLOCK], 1, max_length + 1)
    inputs = _end(digits, lengths)
    targets = _end(tf.reverse_sequence(digits, lengths, seq_axis=1), lengths) if reverse else inputs
    return {"inputs": inputs, "targets": targets, "sizes": tf.stack([lengths + 1, lengths + 1], 1)}


def _addition(seed: Any, base: int, max_length: int, length: int | None) -> dict[str, Any]:
    """Two little-endian numbers, a separator between them, and their sum; only the number zero has
    a zero as highest digit.
    """
    width = length or max_length
    columns = tf.range(width)[tf.newaxis, :]
    first = _uniform(_fold_in(seed, 0), [_BLOCK], 1, width // 2 + 1)
    longest = width - 1 - first
    second = longest if length else _uniform(_fold_in(seed, 1), [_BLOCK], 1, longest + 1)
    separator, size = first[:, tf.newaxis], (first + 1 + second)[:, tf.newaxis]
    highest = (columns == separator - 1) & (separator > 1) | (columns == size - 1) & (
        second[:, tf.newaxis] > 1
    )
    digits = tf.where(
        highest,
        _uniform(_fold_in(seed, 2), [_BLOCK, width], 1, base),
        _uniform(_fold_in(seed, 3), [_BLOCK, width], 0, base),
    )
    summand = tf.where(columns < separator, digits, 0)
    shifted = tf.gather(digits, tf.minimum(columns + separator + 1, width - 1), batch_dims=1)
    total, total_size = _add(
        summand,
        tf.where(columns < second[:, tf.newaxis], shifted, 0),
        tf.maximum(first, second),
        base,
    )
    inputs = tf.where(columns == separator, base, digits) + FIRST_SYMBOL_ID
    return {
        "inputs": _end(inputs, size[:, 0]),
        "targets": _end(total + FIRST_SYMBOL_ID, total_size),
        "sizes": tf.stack([size[:, 0], total_size], 1) + 1,
    }


def _add(first: Any, second: Any, size: Any, base: int) -> tuple[Any, Any]:
    """Returns the sums of little-endian numbers [rows, width] with their digits' number [rows];
    `size` is the longer summand's.

    A column carries where it alone reaches the base, or where it is one short of it and the column
    below carries; so the last column that is not one short decides. That column is found for all
    columns at once by a running maximum in log2(width) steps.
    """
    width = first.shape[1]
    sums = first + second
    carries = tf.where(
        sums == base - 1, -1, 2 * tf.range(width)[tf.newaxis, :] + tf.cast(sums >= base, tf.int32)
    )
    reach = 1
    while reach < width:
        carries = tf.maximum(
            carries, tf.pad(carries[:, :-reach], [[0, 0], [reach, 0]], constant_values=-1)
        )
        reach *= 2
    carried = tf.where(carries < 0, 0, carries % 2)
    digits = (sums + tf.pad(carried[:, :-1], [[0, 0], [1, 0]])) % base
    return digits, size + tf.gather(carried, size - 1, batch_dims=1)


def _end(symbols: Any, sizes: Any) -> Any:
    """[rows, width + 1]: the first `sizes` [rows] symbols of each row, the end, and padding."""
    columns = tf.range(symbols.shape[1] + 1)[tf.newaxis, :]
    wider = tf.pad(symbols, [[0, 0], [0, 1]])
    return tf.where(
        columns < sizes[:, tf.newaxis], wider, tf.where(columns == sizes[:, tf.newaxis], END_ID, 0)
    )


def _uniform(seed: Any, shape: list[int], low: int, high: Any) -> Any:
    """Returns int32 draws from low..high-1; `high` may be a tensor of `shape`."""
    if isinstance(high, int):
        return tf.random.stateless_uniform(shape, seed, low, high, tf.int32)
    share = tf.random.stateless_uniform(shape, seed, dtype=tf.float32)
    drawn = low + tf.cast(share * tf.cast(high - low, tf.float32), tf.int32)
    return tf.minimum(
        drawn, high - 1
    )  # float32 may round a share close to 1 up to the bound itself


def _fold_in(seed: Any, number: Any) -> Any:
    return tf.random.fold_in(seed, tf.cast(number, tf.int64))
