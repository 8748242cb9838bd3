"""Learned embeddings of positions, as ConvS2S adds them (arXiv 1705.03122)."""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.embedding import Scale, TokenEmbedding


@keras.saving.register_keras_serializable("ut_tf")
class LearnedPositions(keras.layers.Layer):  # type: ignore[misc]
    """Adds a learned embedding of each position; those beyond the last share it.

    Args:
      hidden_size: width of the states.
      num_positions: how many have an embedding of their own; 0: nothing is added.
      scale, stddev: as of ``TokenEmbedding``.

    Call arguments:
      x: [batch, length, hidden_size].
    """

    def __init__(
        self,
        hidden_size: int,
        num_positions: int,
        scale: Scale = "sqrt",
        stddev: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_positions = num_positions
        self.table = None
        if num_positions:
            # Position n has the id n + 1, as 0 would be padding.
            self.table = TokenEmbedding(
                num_positions + 1,
                hidden_size,
                scale,
                stddev,
                name="embedding",
                dtype=self.dtype_policy.name,
            )

    def build(self, input_shape: Any) -> None:
        if self.table is not None:
            self.table.build(input_shape)

    def call(self, x: Any) -> Any:
        if self.table is None:
            return x
        positions = 1 + tf.range(tf.shape(x)[1])
        return x + self.table(tf.minimum(positions, self.num_positions)[None])

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return {} if self.table is None else self.table.prepare()

    def step(self, x: Any, index: Any, weights: dict[str, Any]) -> Any:
        """Adds the embedding of position `index` to x [batch, n, hidden_size]."""
        if self.table is None:
            return x
        return x + self.table.step(tf.minimum(index + 1, self.num_positions)[None], weights)
