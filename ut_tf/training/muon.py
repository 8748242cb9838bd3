"""Muon's step for a kernel: its momentum as a matrix with all singular values near one (Jordan et
al. 2024; Liu et al., arXiv 2502.16982).

::

    step, momentum = muon_step(gradient, momentum, 0.95)
    kernel = kernel - rate * step

With g the gradient, m the momentum and b its decay::

    m = b m + (1 - b) g
    u = (1 - b) g + b m                                    (Nesterov)
    step = 0.2 * sqrt(max(rows, columns)) * orthogonalised(u)

A convolution's kernel counts as a matrix with a row for each input in its window; of relaxed sets
(Neural GPU) each is a kernel of its own.

The factor gives the step about the size of Adam's, so that both have one learning rate (2502.16982,
section 2.2). Keras' Muon is a whole optimizer, which ``optimizer.py`` cannot use; a test compares
the two.
"""

from typing import Any

import tensorflow as tf

_ADAM_SIZE = 0.2
"""Root mean square of the values of a step."""
_ITERATIONS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_SMALLEST_NORM = 1e-7
_MOST_DIMENSIONS = 4
"""Of a convolution's kernel: [height, width, inputs, outputs]. One more counts its sets."""


def muon_step(gradient: Any, momentum: Any, decay: float) -> tuple[Any, Any]:
    """Returns the step and the new momentum, both in the gradient's shape.

    Args:
      gradient, momentum: float32 [inputs, outputs], of a convolution [width, inputs, outputs] or
        [height, width, inputs, outputs], of several sets of kernels [sets, height, width, inputs,
        outputs]; of static shape.
      decay: b, from 0 to below 1.
    """
    momentum = decay * momentum + (1.0 - decay) * gradient
    direction = (1.0 - decay) * gradient + decay * momentum
    sets = gradient.shape[0] if len(gradient.shape) > _MOST_DIMENSIONS else 1
    matrices = tf.reshape(direction, [sets, -1, gradient.shape[-1]])
    size = _ADAM_SIZE * max(matrices.shape[1:]) ** 0.5
    return size * tf.reshape(orthogonalised(matrices), gradient.shape), momentum


def orthogonalised(matrix: Any) -> Any:
    """Returns U V^T, about, of each matrix U S V^T: float32 [..., rows, columns].

    Five iterations of an odd polynomial bring every singular value that is not tiny beside the
    largest to between 0.7 and 1.2. A matrix of zeros stays one.
    """
    is_tall = matrix.shape[-2] > matrix.shape[-1]
    x = tf.linalg.matrix_transpose(matrix) if is_tall else matrix
    x /= tf.maximum(tf.norm(x, axis=(-2, -1), keepdims=True), _SMALLEST_NORM)
    linear, cubic, quintic = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        square = tf.matmul(x, x, transpose_b=True)
        x = linear * x + tf.matmul(cubic * square + quintic * tf.matmul(square, square), x)
    return tf.linalg.matrix_transpose(x) if is_tall else x
