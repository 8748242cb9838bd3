"""SwiGLU, a gated transition function (arXiv 2002.05202)."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.layers.key_value_cache import LayerCache, StepWeights
from ut_tf.layers.linear import Linear, affine, flatten
from ut_tf.layers.transition import FeedForward


@keras.saving.register_keras_serializable("ut_tf")
class SwiGLU(FeedForward):
    """(silu(x G) * (x U)) W, without biases; G and U are the halves of the inner kernel.

    Arguments are those of ``Transition``, call arguments and result those of
    ``TransitionFunction``. filter_size is the width of either half; 2/3 of that of an ``fc``
    transition makes as many weights.
    """

    _inner_parts: ClassVar[int] = 2

    def _map_to(self, units: int, name: str) -> Any:
        return Linear(units, False, self.kernel_init, name=name, dtype=self.dtype_policy)

    def call(
        self, x: Any, keep: Any = None, training: bool = False, output_scale: float = 1.0
    ) -> Any:
        hidden = self.dropout.drop(_gated(self.inner(flatten(x))), training)
        return self._of_hidden(hidden, x, training, output_scale)

    def step(self, x: Any, weights: StepWeights, cache: LayerCache) -> tuple[Any, LayerCache]:
        """Returns (the transition of the newest position [rows, hidden_size], the cache)."""
        return affine(_gated(affine(x, weights["inner"])), weights["outer"]), cache


def _gated(joined: Any) -> Any:
    """Returns silu(gates) * values, of [..., 2 * filter_size] with the gates first."""
    gates, values = tf.split(joined, 2, -1)
    return tf.nn.silu(gates) * values
