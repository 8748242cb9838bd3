"""The Neural GPU's encoder: a mental image, worked on for as many steps as the input is long."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.layers.stretch import stretched
from ut_tf.models.interfaces import Encoded
from ut_tf.models.neural_gpu.image_steps import ImageSteps


@keras.saving.register_keras_serializable("ut_tf")
class ImageEncoder(ImageSteps):
    """CGRUs repeated over the embedded inputs, as often as these are long.

    An input of length n fills the first column of an image of ⌈stretch · n⌉ rows, one symbol in
    each, with zeros in all other cells. There are as many steps as rows, so that the work is
    quadratic in the length, and every cell is reached from every other. The first column of the
    last image is read (arXiv 1511.08228).

    Each example has its own rows and its own number of steps: what is beyond is zero and does not
    change, so that neither padding nor the other examples of its batch matter to it.

    Args:
      stretch: rows, and steps, per symbol.
      others: as of ``ImageSteps``.

    Call arguments:
      inputs: [batch, length, maps].
      padding_mask: float32 [batch, length], 0 on padding.
      training: whether to drop.

    Returns:
      Encoded: states float32 [batch, rows, maps], the first column; mask, 0 beyond an example's own
      rows; extra float32 [batch, rows, image_width * maps], the image; details, whose ponder times
      are the steps.
    """

    with_tape: ClassVar[bool] = False

    def __init__(self, stretch: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stretch = stretch

    def call(self, inputs: Any, padding_mask: Any, training: bool = False) -> Encoded:
        length, maps = tf.shape(inputs)[1], self.hidden_size
        rows = stretched(length, self.stretch)
        steps = stretched(tf.reduce_sum(padding_mask, 1), self.stretch)
        # Words that are left out embed as zeros, like padding: only the lengths tell them apart.
        represented = tf.cast(tf.range(rows)[None] < steps[:, None], tf.float32)
        first = tf.cast(inputs, tf.float32) * padding_mask[..., None]
        image = tf.pad(first, [[0, 0], [0, rows - length], [0, self.channels - maps]])
        weights, drop = self.prepare(), self.dropping(tf.cast(steps, tf.float32), training)

        def body(number: Any, image: Any) -> tuple[Any, Any]:
            active = (represented * tf.cast(number < steps, tf.float32)[:, None])[..., None]
            return number + 1, self.work(image, weights, number, active, drop=drop)

        # As many as the longest example has: rows of padding behind all of them cost no step.
        last = tf.reduce_max(tf.concat([steps, [0]], 0))
        _, image = tf.while_loop(
            lambda number, _: number < last, body, (tf.constant(0), image), maximum_iterations=rows
        )
        times = tf.reduce_sum(represented, 1, keepdims=True) * represented
        details = RecurrenceDetails(times, tf.zeros_like(times), represented)
        return Encoded(image[..., :maps], represented, extra=image, details=details)
