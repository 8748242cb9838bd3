"""A recurrent layer over the positions, Keras' GRU or LSTM, as one more sublayer.

::

    layer = RecurrentLayer(128, "gru")
    states = layer(inputs, mask)                            # [batch, length, hidden_size]

Post-norm, y = LayerNorm(x + RNN(x)); pre-norm, y = x + RNN(LayerNorm(x)). In the encoder it reads
both ways, half of the channels each; where causal it reads forward. Padding is skipped. See Chen et
al., "The Best of Both Worlds" (arXiv 1804.09849), for recurrent encoders before attention.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.dropout import Dropout
from ut_tf.layers.key_value_cache import LayerCache, StepWeights
from ut_tf.layers.linear import kernel_initializer
from ut_tf.layers.normalization import LayerNorm

_KINDS: dict[str, Any] = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}
_STATES = {"gru": 1, "lstm": 2}


@keras.saving.register_keras_serializable("ut_tf")
class RecurrentLayer(keras.layers.Layer):  # type: ignore[misc]
    """A GRU or LSTM over the positions, with residual, dropout and norm.

    Args:
      hidden_size: width of states and output.
      recurrent_layer: "gru" or "lstm".
      causal: whether positions see only earlier ones.
      norm: "post" or "pre".
      norm_epsilon: of the layer norm.
      dropout: rate, on the output of the GRU or LSTM.
      kernel_init: "glorot" (the recurrent kernel is orthogonal then) or "unit_scaling".

    Call arguments:
      x: [batch, length, hidden_size].
      mask: float32 [batch, length], 0 on padding behind the symbols; a causal layer does not look
        at it.
      training: whether to drop.

    Returns:
      [batch, length, hidden_size] in the compute dtype.
    """

    def __init__(
        self,
        hidden_size: int,
        recurrent_layer: str,
        causal: bool = False,
        norm: str = "post",
        norm_epsilon: float = 1e-6,
        dropout: float = 0.0,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.recurrent_layer = recurrent_layer
        self.causal = causal
        self.pre_norm = norm == "pre"
        policy, units = self.dtype_policy, hidden_size // (1 if causal else 2)
        # Without cuDNN's kernels, which XLA cannot compile and an export to another machine may not
        # find.
        options = {"return_sequences": True, "use_cudnn": False, "dtype": policy}
        if kernel_init != "glorot":
            # Where it is, Keras' own are right: Glorot's for the inputs, an orthogonal kernel for
            # the state.
            options |= {
                f"{name}_initializer": kernel_initializer(kernel_init)
                for name in ("kernel", "recurrent")
            }
        rnn = _KINDS[recurrent_layer](units, **options, name="rnn")
        self.rnn = rnn if causal else keras.layers.Bidirectional(rnn, name="both", dtype=policy)
        self.norm = LayerNorm(norm_epsilon, name="norm", dtype=policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=policy)

    def build(self, input_shape: Any) -> None:
        shape = (None, None, input_shape[-1])
        self.rnn.build(shape)
        self.norm.build(shape)

    def call(self, x: Any, mask: Any = None, training: bool = False) -> Any:
        x = tf.cast(x, self.compute_dtype)
        keep = None if mask is None or self.causal else tf.cast(mask, tf.bool)
        read = self.norm(x) if self.pre_norm else x
        # Keras hangs the mask on its output and warns where it ends: a new tensor has none.
        y = x + self.dropout(tf.identity(self.rnn(read, mask=keep)), training=training)
        return y if self.pre_norm else self.norm(y)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        return self.norm.prepare()

    def empty_cache(self, batch_size: Any, beam_size: int) -> dict[str, Any]:
        """The cache of ``step`` before the first position: the layer's state, [batch, beam_size, 1,
        hidden_size] per tensor.
        """
        shape = tf.stack([batch_size, beam_size, 1, self.hidden_size])
        names = [f"state_{number}" for number in range(_STATES[self.recurrent_layer])]
        return {
            "attention": {},
            "transition": {name: tf.zeros(shape, self.compute_dtype) for name in names},
        }

    def step(self, x: Any, weights: StepWeights, cache: LayerCache) -> tuple[Any, LayerCache]:
        """Computes one new position of each hypothesis, of a causal layer.

        Args:
          x: [batch * beam_size, hidden_size].
          weights: from ``prepare``.
          cache: from ``empty_cache`` or an earlier position.

        Returns:
          ([batch * beam_size, hidden_size], the new cache).
        """
        read = self.norm.step(x, weights) if self.pre_norm else x
        before = cache["transition"]
        output, states = self.rnn.cell(
            read, [tf.reshape(state, [-1, self.hidden_size]) for state in before.values()]
        )
        after = {
            name: tf.reshape(state, tf.shape(before[name]))
            for name, state in zip(before, states, strict=True)
        }
        y = tf.cast(x, self.compute_dtype) + output
        return y if self.pre_norm else self.norm.step(y, weights), {**cache, "transition": after}
