"""The positions of an example as a reader sees them: texts and roles."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.symbols import END_ID, PADDING_ID

START, PADDING = "<start>", "<padding>"


class IdCodec(TextCodec):
    """The text form of a problem that has none: ids as numbers.

    Args:
      problem: name of the problem, for messages.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(name="id_codec")
        self._problem = problem

    def decode(self, outputs: Any) -> Any:
        """Ids with blanks between them, strings [batch]; of classes their numbers."""
        outputs = tf.convert_to_tensor(outputs)
        if outputs.shape.rank == 1:
            return tf.strings.as_string(outputs)
        kept = tf.math.cumprod(tf.cast(outputs > END_ID, tf.int32), axis=1)
        written = tf.where(kept > 0, tf.strings.as_string(outputs), "")
        return tf.strings.strip(tf.strings.reduce_join(written, axis=1, separator=" "))

    def tokens(self, features: dict[str, Any]) -> Any:
        """The ids of features["inputs"], strings [batch, length]; of facts those of each row."""
        inputs = tf.convert_to_tensor(features["inputs"])
        if inputs.shape.rank == 3:
            written = tf.where(inputs == PADDING_ID, "", tf.strings.as_string(inputs))
            return tf.strings.strip(tf.strings.reduce_join(written, axis=-1, separator=" "))
        return self.target_tokens(inputs)

    def read(self, lines: Any, name: str) -> Any:
        """Raises UserError: the problem reads no text."""
        raise self._refusal(name)

    def read_targets(self, lines: Any, name: str) -> Any:
        """Raises UserError: the problem reads no text."""
        raise self._refusal(name)

    def _refusal(self, name: str) -> UserError:
        return UserError(
            f"{name}: problem {self._problem} has no text form (no text_codec): leave the input"
            " out and look at `examples` of its test data."
        )


def texts_of(strings: Any) -> list[str]:
    """The texts of strings [length], a tensor or an array."""
    return [text.decode("utf-8", errors="replace") for text in np.asarray(strings).tolist()]


def input_positions(
    codec: TextCodec, features: dict[str, Any], length: int, memory_size: int, starts: int = 0
) -> list[dict[str, Any]]:
    """The encoder's positions, {"text", "role"} each.

    Args:
      codec: text form of the problem.
      features: a batch of one example, with "inputs".
      length: positions of the encoder, memory, start symbol and padding included.
      memory_size: learned memory vectors, which are the first positions.
      starts: learned start symbols behind them. Positions beyond the inputs are padding: ByteNet's
        source is longer than its text.
    """
    inputs = np.asarray(features["inputs"])[0]
    texts = texts_of(codec.tokens(features)[0])
    if inputs.ndim == 2:
        roles = ["fact"] * (len(texts) - 1) + ["question"]
    elif codec.board is not None:
        roles = ["end" if symbol == END_ID else "cell" for symbol in inputs]
    else:
        roles = ["end" if symbol == END_ID else "token" for symbol in inputs]
    memory = [_position(f"memory {number}", "memory") for number in range(1, memory_size + 1)]
    start = [_position(START, "start")] * starts
    padding = [_position(PADDING, "token")] * (length - memory_size - starts - len(texts))
    return [*memory, *start, *map(_position, texts, roles), *padding]


def with_difficulty(
    positions: Sequence[dict[str, Any]], difficulty: np.ndarray
) -> list[dict[str, Any]]:
    """Returns the encoder's positions, those of symbols with their "difficulty", an int.

    Args:
      positions: of the encoder.
      difficulty: of the symbols, int32 [length]; zeros may be missing at its end.
    """
    numbers = iter(difficulty.tolist())
    return [
        position
        if position["role"] in ("memory", "start")
        else {**position, "difficulty": next(numbers, 0)}
        for position in positions
    ]


def target_positions(
    codec: TextCodec, targets: Sequence[int] | np.ndarray, length: int, memory_size: int
) -> list[dict[str, Any]]:
    """The decoder's positions, {"text", "role"} each: each is named by the symbol that it writes.

    Args:
      codec: text form of the problem.
      targets: [target_length].
      length: positions of the decoder, memory included.
      memory_size: learned memory vectors of a language model, which are the first positions.
    """
    texts = texts_of(codec.target_tokens(tf.constant([targets], tf.int32))[0])
    memory = [_position(f"memory {number}", "memory") for number in range(1, memory_size + 1)]
    written = [
        _position(text, "end" if symbol == END_ID else "token")
        for text, symbol in zip(texts, targets, strict=True)
    ]
    return (memory + written)[-length:]


def _position(text: str, role: str) -> dict[str, Any]:
    return {"text": text, "role": role}
