"""Encodings of positions: sinusoids or learned embeddings are added to the states, or queries and
keys are rotated.

``registry.register_position`` registers an encoding of your own, and ``position`` names it::

    @registry.register_position("ramp")
    class RampPositions(PositionEncoding):
        def __init__(self, hidden_size: int) -> None:  # filled in from the configuration, by name
            self.hidden_size = hidden_size

        def signal(self, positions, counted=None):
            return tf.tile(positions[..., None] / 100.0, [1, 1, self.hidden_size])
"""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.errors import marked
from ut_tf.layers.coordinates import (
    ROTARY_BASE,
    head_rotations,
    paper_sinusoid,
    rotation_table,
    tensor2tensor_sinusoid,
)


class PositionEncoding:
    """Base class of the encodings, and ``position="none"``: nothing is done with the positions.

    Attributes:
      adds_to_states: whether ``signal`` returns anything.
      step_sinusoid: the waves that encode recurrent steps beside it, "paper" or "tensor2tensor".
      table: a layer with what the encoding has learned of positions, or None. The model keeps it as
        ``position_table``, one for inputs and targets.
    """

    adds_to_states: ClassVar[bool] = False
    step_sinusoid: ClassVar[str] = "paper"
    table: keras.layers.Layer | None = None

    def signal(self, positions: Any, counted: Any = None) -> Any | None:
        """The signal that is added to the states, float32 [..., hidden_size], or None.

        Args:
          positions: float32 [...], from 1.
          counted: float32 [...], 0 where a position is padding's; None: nowhere.
        """
        return None

    def prepare(self) -> Any | None:
        """The weights for ``step``, read once for a loop, or None."""
        return None

    def step(self, positions: Any, weights: Any) -> Any | None:
        """Returns ``signal`` of one new position of each row: [rows or 1] -> [rows or 1,
        hidden_size].
        """
        return self.signal(positions)

    def rotation(self, positions: Any, backward: Any) -> tuple[Any, Any] | None:
        """The rotation of queries and keys, as ``coordinates.rotate`` takes it, or None.

        Args:
          positions: float32 [batch or 1, length].
          backward: the same, counted from the last symbol.
        """
        return None


class PaperPositions(PositionEncoding):
    """``position="paper"``: interleaved sines and cosines of positions from 1 (``paper_sinusoid``).

    Args:
      hidden_size: width of the states.
    """

    adds_to_states = True

    def __init__(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size

    def signal(self, positions: Any, counted: Any = None) -> Any:
        return paper_sinusoid(positions, self.hidden_size)


class Tensor2TensorPositions(PaperPositions):
    """``position="tensor2tensor"``: all sines before all cosines, of positions from 0."""

    step_sinusoid = "tensor2tensor"

    def signal(self, positions: Any, counted: Any = None) -> Any:
        return tensor2tensor_sinusoid(positions - 1.0, self.hidden_size)


@keras.saving.register_keras_serializable("ut_tf")
class PositionTable(keras.layers.Layer):  # type: ignore[misc]
    """A learned embedding of each position from 0 to learned_positions, one table for inputs and
    targets.

    Args:
      hidden_size: width of an embedding.
      learned_positions: the largest position.

    Call arguments:
      positions: float32 [...]; those below 0 (padding, or targets that count down beyond the start)
        share the embedding of 0.
      counted: float32 [...], 0 where a position is padding's and may be larger than the table;
        None: nowhere.

    Returns:
      float32 [..., hidden_size].

    Raises:
      InvalidArgumentError: a position is larger than the table (outside XLA, which leaves checks
        out). The commands show its sentence.
    """

    def __init__(self, hidden_size: int, learned_positions: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.learned_positions = learned_positions

    def build(self, input_shape: Any) -> None:
        width = self.hidden_size
        normal = keras.initializers.RandomNormal(stddev=width**-0.5)
        self.table = self.add_weight(
            shape=(self.learned_positions + 1, width),
            initializer=normal,
            name="table",
            autocast=False,
        )

    def call(self, positions: Any, counted: Any = None) -> Any:
        return self.look_up(positions, self.prepare(), counted)

    def prepare(self) -> Any:
        """The table for ``look_up``."""
        return tf.convert_to_tensor(self.table)

    def look_up(self, positions: Any, table: Any, counted: Any = None) -> Any:
        """The embeddings of the call, from a table that has been read before."""
        last = self.learned_positions
        sentence = (
            f"position=learned has embeddings of {last} positions and this sequence is longer: use"
            " shorter ones, or train with"
        )
        checked = positions if counted is None else positions * counted
        check = tf.debugging.assert_less_equal(
            checked, float(last), marked(f"{sentence} more learned_positions or another position.")
        )
        with tf.control_dependencies([] if check is None else [check]):
            rows = tf.clip_by_value(tf.cast(positions, tf.int32), 0, last)
        # As large as an embedded symbol: the table's deviation is hidden_size^-0.5.
        return tf.gather(table, rows) * self.hidden_size**0.5


class LearnedPositions(PositionEncoding):
    """``position="learned"``: an embedding of each position.

    Args:
      hidden_size: width of the states.
      learned_positions: the largest position.
    """

    adds_to_states = True

    def __init__(self, hidden_size: int, learned_positions: int) -> None:
        self.table: PositionTable = PositionTable(
            hidden_size, learned_positions, name="position_table", dtype="float32"
        )

    def signal(self, positions: Any, counted: Any = None) -> Any:
        return self.table(positions, counted=counted)

    def prepare(self) -> Any:
        return self.table.prepare()

    def step(self, positions: Any, weights: Any) -> Any:
        return self.table.look_up(positions, weights)


class RotaryPositions(PositionEncoding):
    """``position="rotary"``: the channels of queries and keys are turned in pairs (arXiv
    2104.09864).

    Args:
      hidden_size: width of the states.
      num_heads: attention heads.
      position_from: "both": half of the heads are turned by positions from the end.
      head_size: width of a head, an even number; 0: hidden_size / num_heads.
      rotary_base: as of ``rotation_table``.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        position_from: str = "start",
        head_size: int = 0,
        rotary_base: float = ROTARY_BASE,
    ) -> None:
        self.num_heads = num_heads
        self.head_size = head_size or hidden_size // num_heads
        self.position_from = position_from
        self.rotary_base = rotary_base

    def rotation(self, positions: Any, backward: Any) -> tuple[Any, Any]:
        if self.position_from != "both":
            return rotation_table(positions, self.head_size, self.rotary_base)
        rotations: tuple[Any, Any] = head_rotations(
            positions, backward, self.num_heads, self.head_size, self.rotary_base
        )
        return rotations
