"""SwiGLU, a gated transition function (arXiv 2002.05202)."""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.dropout import Dropout
from ut_tf.layers.key_value_cache import LayerCache, StepWeights
from ut_tf.layers.linear import Linear, affine, flatten, unflatten
from ut_tf.layers.transition import FeedForward


@keras.saving.register_keras_serializable("ut_tf")
class SwiGLU(FeedForward):
    """(silu(x G) * (x U)) W, without biases; G and U are the halves of the inner kernel.

    Args:
      hidden_size: width of the output.
      filter_size: width of either half of the inner layer. 2/3 of that of an ``fc`` transition
        makes as many weights.
      relu_dropout: rate, on the inner layer.
      kernel_init: "glorot" or "unit_scaling".

    Call arguments and result are those of ``TransitionFunction``.
    """

    def __init__(
        self,
        hidden_size: int,
        filter_size: int,
        relu_dropout: float = 0.0,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.filter_size = filter_size
        policy = self.dtype_policy
        self.inner = Linear(2 * filter_size, False, kernel_init, name="inner", dtype=policy)
        self.outer = Linear(hidden_size, False, kernel_init, name="outer", dtype=policy)
        self.dropout = Dropout(relu_dropout, name="dropout", dtype=policy)

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        hidden = self.dropout.drop(_gated(self.inner(flatten(x))), training)
        scale = self.dropout.scale(training)
        return unflatten(self.outer(hidden, input_scale=scale, output_scale=output_scale), x)

    def step(self, x: Any, weights: StepWeights, cache: LayerCache) -> tuple[Any, LayerCache]:
        """Returns (the transition of the newest position [rows, hidden_size], the cache)."""
        return affine(_gated(affine(x, weights["inner"])), weights["outer"]), cache


def _gated(joined: Any) -> Any:
    """Returns silu(gates) * values, of [..., 2 * filter_size] with the gates first."""
    gates, values = tf.split(joined, 2, -1)
    return tf.nn.silu(gates) * values
