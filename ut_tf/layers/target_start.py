"""The start of a decoder: a vector in front of the first symbol. It has no symbol id."""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.embedding import Scale, embedding_scale, embedding_stddev


@keras.saving.register_keras_serializable("ut_tf")
class TargetStart(keras.layers.Layer):  # type: ignore[misc]
    """A learned vector as a decoder's first input, which has no symbol before it.

    Without it, and without an added position, the first position's state is zero in every block of
    a language model, and each layer norm of zeros multiplies its gradient by 1 / sqrt(norm_epsilon)
    = 1000.

    Args:
      hidden_size, scale, stddev: as of ``TokenEmbedding``: the initial vector is as large as an
        embedded symbol.

    Call arguments:
      states: [batch, length, hidden_size], embedded targets shifted right, zero at the first
        position.
    """

    def __init__(
        self, hidden_size: int, scale: Scale = "sqrt", stddev: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.stddev = embedding_stddev(hidden_size, stddev) * embedding_scale(hidden_size, scale)

    def build(self, input_shape: Any) -> None:
        self.vector = self.add_weight(
            shape=(self.hidden_size,),
            initializer=keras.initializers.RandomNormal(stddev=self.stddev),
            name="vector",
            autocast=False,
        )

    def call(self, states: Any) -> Any:
        first = tf.cast(tf.equal(tf.range(tf.shape(states)[1]), 0), states.dtype)
        return states + first[:, None] * tf.cast(self.vector, states.dtype)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {"vector": tf.cast(self.vector, self.compute_dtype)}

    def step(self, states: Any, index: Any, weights: dict[str, Any]) -> Any:
        """Adds the vector to states [rows, hidden_size] of position `index` (int32 [] or [rows])
        0.
        """
        first = tf.cast(tf.reshape(tf.equal(index, 0), [-1, 1]), states.dtype)
        return states + first * weights["vector"]
