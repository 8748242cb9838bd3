"""Texts of examples, as Python has them, as ids: some hundred at a time, so that one long text
among many does not fill the memory.

How it is used::

    reader = ExampleReader(codec, model.spec, DecodeConfig())
    (row,) = reader.read({1: (reader.texts_of("1x2"), None)})
    row.error             # "'1x2' is not what this problem reads: expected digits ..."
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_tf.data.text.codec import TextCodec, string_tensor
from ut_tf.data.text.utf8 import surrogate_in
from ut_tf.errors import UserError
from ut_tf.inference.batches import Example, trimmed
from ut_tf.inference.graphs import graph
from ut_tf.inference.reading import CHARACTERS_PER_SYMBOL, Reader
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.config import DecodeConfig

# Texts, and their characters with padding, that become ids at once.
_TEXTS_AT_ONCE = 256
_CHARACTERS_AT_ONCE = 1_000_000

Texts = tuple[str, ...]
# The texts of an example and, where it is scored, its target.
Given = tuple[Texts, str | None]


class ReadExample(NamedTuple):
    """An example that was read; the other fields are as of ``Reading``.

    Fields:
      example: its ids, cut to what may be read.
      error: why it cannot be read; "".
      warning: what of it is left out; "".
      blank: whether it has no text at all.
    """

    example: Example
    error: str
    warning: str
    blank: bool


class ExampleReader:
    """Reads examples for a model.

    Args:
      codec: text form of the model's problem.
      spec: of the problem.
      config: has the bound of what is read.
    """

    def __init__(self, codec: TextCodec, spec: ProblemSpec, config: DecodeConfig) -> None:
        self._codec = codec
        self._most = CHARACTERS_PER_SYMBOL * config.max_input_length
        self._prompts = spec.inputs == "none"
        reader, texts = Reader(codec, spec, config), tf.TensorSpec([None], tf.string)
        if self._prompts:
            self._inputs = graph(reader.prompts, [texts])
        else:
            self._inputs = graph(reader.inputs, [texts] * len(codec.fields))
        self._targets = graph(reader.targets, [texts])

    def texts_of(self, example: Any) -> Texts:
        """The texts of an example: of one field a text will do, and a field of lines may be a list
        of them.

        Raises:
          UserError: it has other parts than the codec's fields, or some that are no texts.
        """
        fields = ("prompt",) if self._prompts else self._codec.fields
        parts = [example] if len(fields) == 1 and isinstance(example, str) else example
        if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
            raise UserError(
                f"an example of the type {type(example).__name__}: expected a tuple of"
                f" {', '.join(fields)}."
            )
        if len(parts) != len(fields):
            raise UserError(
                f"expected {len(fields)}: {', '.join(fields)}, each a text of its own; got"
                f" {len(parts)}."
            )
        return tuple(self._text(*pair) for pair in zip(parts, fields, strict=True))

    def target_of(self, target: Any) -> str:
        """The text of an example's target.

        Raises:
          UserError: it is no text.
        """
        return self._text(target, "target")

    def read(self, given: Mapping[int, Given]) -> list[ReadExample]:
        """The examples by number, in order; all of them with targets, or none."""
        read = [row for some in self._at_once(given) for row in self._read(some)]
        return sorted(read, key=lambda row: row.example.number)

    def _text(self, value: Any, field: str) -> str:
        if isinstance(value, str):
            half = surrogate_in(value)
            if half:
                raise UserError(
                    f"{_one(field)} with {half}, half of a surrogate pair and no character: decode"
                    " the bytes that it comes from as UTF-8."
                )
            return value
        takes_lines = field in self._codec.fields_of_lines
        if takes_lines and isinstance(value, list | tuple):
            return "\n".join(self._text(line, f"line of {field}") for line in value)
        expected = "a text (str)" + (" or a list of texts" if takes_lines else "")
        remedy = ", decode it first" if isinstance(value, bytes) else ""
        raise UserError(
            f"{_one(field)} of the type {type(value).__name__}: expected {expected}{remedy}."
        )

    def _at_once(self, given: Mapping[int, Given]) -> Iterator[dict[int, Given]]:
        sizes = {
            number: sum(min(len(text), self._most) for text in (*texts, target or ""))
            for number, (texts, target) in given.items()
        }
        some: dict[int, Given] = {}
        for number in sorted(given, key=sizes.__getitem__):
            is_full = (len(some) + 1) * sizes[number] > _CHARACTERS_AT_ONCE
            if some and (is_full or len(some) == _TEXTS_AT_ONCE):
                yield some
                some = {}
            some[number] = given[number]
        if some:
            yield some

    def _read(self, given: Mapping[int, Given]) -> Iterator[ReadExample]:
        columns = [string_tensor(column) for column in zip(*_sources(given), strict=True)]
        wanted = [target for _, target in given.values() if target is not None]
        nothing = _nothing(len(given))
        inputs = [part.numpy() for part in self._inputs(*columns)] if columns else nothing
        if wanted:
            targets = [part.numpy() for part in self._targets(string_tensor(wanted))]
        else:
            targets = [[None] * len(given), *nothing[1:]]
        rows = zip(given, zip(*inputs, strict=True), zip(*targets, strict=True), strict=True)
        for number, of_inputs, of_targets in rows:
            ids, error, warning, blank = of_inputs
            target, target_error = of_targets[:2]
            if target is not None and target.ndim:
                target = trimmed(target)
            told = error or target_error
            yield ReadExample(
                Example(number, trimmed(ids), target),
                told.decode("utf-8"),
                warning.decode("utf-8"),
                bool(blank) and not wanted,
            )


def _one(field: str) -> str:
    return "an input" if field == "inputs" else f"a {field}"


def _sources(given: Mapping[int, Given]) -> Iterator[Texts]:
    return (texts for texts, _ in given.values())


def _nothing(count: int) -> list[Any]:
    """The parts of the reading of examples without inputs."""
    none = np.full([count], b"", object)
    return [np.zeros([count, 1], np.int32), none, none, np.zeros([count], bool)]
