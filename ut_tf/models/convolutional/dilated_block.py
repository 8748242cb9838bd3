"""ByteNet's block: a dilated convolution between two maps of single positions (arXiv 1610.10099).

The paper's figure 3, with ReLUs, and its width 2d as hidden_size:

    x' = x + W₂ ReLU(LN(conv(ReLU(LN(W₁ ReLU(LN(x)))))))

with W₁ from hidden_size to half of it, and W₂ back.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.dropout import Dropout
from ut_tf.layers.linear import Linear, matmul
from ut_tf.layers.normalization import LayerNorm
from ut_tf.models.convolutional.convolution import Convolution


def affine(x: Any, weights: dict[str, Any]) -> Any:
    """x · kernel + bias over the last axis of x [..., inputs]."""
    return matmul(x, weights["kernel"]) + weights["bias"]


@keras.saving.register_keras_serializable("ut_tf")
class DilatedBlock(keras.layers.Layer):  # type: ignore[misc]
    """A dilated convolution between two maps of single positions, with layer norms, ReLUs and a
    residual.

    Args:
      hidden_size: width of the states.
      kernel_size: positions that the convolution sees.
      dilation: distance between these.
      causal: whether the convolution sees no later position.
      dropout: rate on the block's output.
      norm_epsilon: as of ``LayerNorm``.
      kernel_init: as of ``Linear``.

    Call arguments:
      x: [batch, length, hidden_size] -> the same shape.
      padding_mask: float32 [batch, length], 0 on padding, which the convolution sees as zeros;
        None: nothing is padding.
      training: whether to drop.
    """

    def __init__(
        self,
        hidden_size: int,
        kernel_size: int,
        dilation: int,
        causal: bool,
        dropout: float = 0.0,
        norm_epsilon: float = 1e-6,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        half, policy = hidden_size // 2, self.dtype_policy.name
        self.inner_norm = LayerNorm(norm_epsilon, name="inner_norm", dtype=policy)
        self.inner = Linear(half, True, kernel_init, name="inner", dtype=policy)
        self.middle_norm = LayerNorm(norm_epsilon, name="middle_norm", dtype=policy)
        self.convolution = Convolution(
            half, kernel_size, dilation, causal, kernel_init, name="convolution", dtype=policy
        )
        self.outer_norm = LayerNorm(norm_epsilon, name="outer_norm", dtype=policy)
        self.outer = Linear(hidden_size, True, kernel_init, name="outer", dtype=policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=policy)

    def build(self, input_shape: Any) -> None:
        half = (*input_shape[:-1], self.hidden_size // 2)
        for part in (self.inner_norm, self.inner):
            part.build(input_shape)
        for part in (self.middle_norm, self.convolution, self.outer_norm, self.outer):
            part.build(half)

    def call(self, x: Any, padding_mask: Any = None, training: bool = False) -> Any:
        y = self.inner(tf.nn.relu(self.inner_norm(x)))
        y = self.convolution(tf.nn.relu(self.middle_norm(y)), padding_mask)
        y = self.outer(tf.nn.relu(self.outer_norm(y)))
        return x + self.dropout(y, training=training)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``."""
        names = ("inner_norm", "inner", "middle_norm", "convolution", "outer_norm", "outer")
        return {name: getattr(self, name).prepare() for name in names}

    def step(self, x: Any, weights: dict[str, Any], earlier: Any) -> tuple[Any, Any]:
        """One new position x [batch, n, hidden_size].

        Returns:
          (state [batch, n, hidden_size], the convolution's inputs before the next position).
        """
        y = affine(tf.nn.relu(self.inner_norm.step(x, weights["inner_norm"])), weights["inner"])
        y, earlier = self.convolution.step(
            tf.nn.relu(self.middle_norm.step(y, weights["middle_norm"])),
            weights["convolution"],
            earlier,
        )
        return (
            x
            + affine(tf.nn.relu(self.outer_norm.step(y, weights["outer_norm"])), weights["outer"]),
            earlier,
        )
