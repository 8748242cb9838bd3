"""ConvS2S' block: a gated convolution with a residual, and attention in a decoder (arXiv
1705.03122).

    y = GLU(conv(x));  in a decoder: y = (y + c) · √½;  x' = (y + x) · √½

The convolution sees kernel_size positions and gives twice the width for the gates; c is the context
of ``GatedDecoder``. Each sum of two is multiplied by √½, which keeps its variance. Dropout is
applied to the convolution's input.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.dropout import Dropout
from ut_tf.layers.linear import Linear, matmul
from ut_tf.layers.single_head_attention import attend
from ut_tf.models.convolutional.convolution import Convolution, gated

_HALF = 0.5**0.5


@keras.saving.register_keras_serializable("ut_tf")
class GatedBlock(keras.layers.Layer):  # type: ignore[misc]
    """A gated convolution with residual, and with attention where there is a memory.

    Kernels start at variance 4 (1 - dropout) / (kernel_size · hidden_size), which a GLU halves
    twice.

    Args:
      hidden_size: width of the states.
      kernel_size: positions that the convolution sees.
      causal: whether positions see only earlier ones.
      with_memory: whether the block attends over an encoder's states.
      dropout: rate on the block's input.
      kernel_init: as of ``Linear``, of the queries.

    Call arguments:
      x: [batch, length, hidden_size].
      padding_mask: float32 [batch, length], 0 on padding; None: nothing is padding.
      embedded: [batch, length, hidden_size], the embedded symbols, where there is a memory.
      memory: from ``GatedDecoder.read``; empty without an encoder.
      training: whether to drop.

    Returns:
      (states [batch, length, hidden_size], attention weights float32 [batch, length, memory_length]
      or None).
    """

    def __init__(
        self,
        hidden_size: int,
        kernel_size: int,
        causal: bool,
        with_memory: bool,
        dropout: float = 0.0,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy.name
        self.dropout = Dropout(dropout, name="dropout", dtype=policy)
        self.convolution = Convolution(
            2 * hidden_size,
            kernel_size,
            causal=causal,
            gain=4.0 * (1.0 - dropout),
            name="convolution",
            dtype=policy,
        )
        self.query = None
        if with_memory:
            self.query = Linear(hidden_size, True, kernel_init, name="query", dtype=policy)

    def build(self, input_shape: Any) -> None:
        self.convolution.build(input_shape)
        if self.query is not None:
            self.query.build(input_shape)

    def call(
        self,
        x: Any,
        padding_mask: Any = None,
        embedded: Any = None,
        memory: Any = None,
        training: bool = False,
    ) -> tuple[Any, Any]:
        y = gated(self.convolution(self.dropout(x, training=training), padding_mask))
        return self._joined(
            y, x, embedded, memory, None if self.query is None else self.query.prepare()
        )

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        weights = {"convolution": self.convolution.prepare()}
        return weights if self.query is None else {**weights, "query": self.query.prepare()}

    def step(
        self, x: Any, embedded: Any, weights: dict[str, Any], memory: dict[str, Any], earlier: Any
    ) -> tuple[Any, Any]:
        """One new position x [batch, n, hidden_size].

        Returns:
          (state [batch, n, hidden_size], the convolution's inputs before the next position).
        """
        y, earlier = self.convolution.step(x, weights["convolution"], earlier)
        return self._joined(gated(y), x, embedded, memory, weights.get("query"))[0], earlier

    def _joined(self, y: Any, x: Any, embedded: Any, memory: Any, query: Any) -> tuple[Any, Any]:
        attention = None
        if query is not None:
            queries = (matmul(y, query["kernel"]) + query["bias"] + embedded) * _HALF
            scores = tf.matmul(queries, memory["keys"], transpose_b=True)
            contexts, attention = attend(scores, memory)
            y = (y + contexts) * _HALF
        return (y + x) * _HALF, attention
