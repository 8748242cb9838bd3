"""The Extended Neural GPU's decoder, which writes an output tape (arXiv 1610.08613).

The decoder d starts from the encoder's last image, and the tape p has the same rows, empty at
first. Step k reads the whole tape, and the k-th output is read from row k; its symbol is then
written on the tape, in row k::

    d_{k+1} = CGRU^d(d_k, p_k);   o_k = softmax(O d_{k+1}[k])
    p_{k+1} = p_k with the embedded o_k in row k

In training all o_k are known, so p_k is a mask on the embedded targets. An output longer than the
image reads zeros beyond.
"""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.models.interfaces import Encoded, Memory
from ut_tf.models.neural_gpu.image_steps import ImageSteps


@keras.saving.register_keras_serializable("ut_tf")
class TapeDecoder(ImageSteps):
    """An Extended Neural GPU's decoder: one step of its CGRUs for each output symbol, beside a tape
    of those before it.

    Args:
      as of ``ImageSteps``.

    Call arguments:
      inputs: [batch, target_length, maps], the embedded symbols before each position; the first
        is that of the start and is not read.
      memory: from ``read``.
      training: whether to drop.

    Returns:
      (states float32 [batch, target_length, maps], an empty list: there is no attention).
    """

    with_tape: ClassVar[bool] = True

    def call(self, inputs: Any, memory: Memory, training: bool = False) -> tuple[Any, list[Any]]:
        image, active = self._flat(memory["image"]), memory["rows"][..., None]
        size, length = tf.shape(image)[1], tf.shape(inputs)[1]
        # Row j of the tape is symbol j, the input of position j + 1.
        written = tf.pad(
            tf.cast(inputs, tf.float32)[:, 1 : size + 1],
            [[0, 0], [0, tf.maximum(size - length + 1, 0)], [0, 0]],
        )[:, :size]
        weights, order = self.prepare(), tf.range(size)[None, :, None]
        drop = self.dropping(tf.fill(tf.shape(image)[:1], tf.cast(length, tf.float32)), training)

        def body(number: Any, image: Any, states: Any) -> tuple[Any, Any, Any]:
            tape = written * tf.cast(order < number, tf.float32)
            image = self.work(image, weights, number, active, tape, drop)
            return number + 1, image, states.write(number, self._row(image, number))

        states = tf.TensorArray(
            tf.float32, length, element_shape=[inputs.shape[0], self.hidden_size]
        )
        start = (tf.constant(0), image, states)
        _, _, states = tf.while_loop(
            lambda number, *_: number < length, body, start, maximum_iterations=length
        )
        return tf.transpose(states.stack(), [1, 0, 2]), []

    def read(self, encoded: Encoded) -> dict[str, Any]:
        """The last image, "image" [batch, rows, image_width, maps], and "rows" [batch, rows], 1 for
        an example's own rows.
        """
        columns = [self.image_width, self.hidden_size]
        image = tf.reshape(encoded.extra, tf.concat([tf.shape(encoded.extra)[:2], columns], 0))
        return {
            "image": tf.ensure_shape(image, [*encoded.extra.shape[:2], *columns]),
            "rows": encoded.mask,
        }

    def start(self, memory: Memory, batch_size: Any, beam_size: int) -> dict[str, Any]:
        """The image and the empty tape of each hypothesis, [batch, beam_size, rows, channels] and
        [..., maps].
        """
        image = tf.repeat(self._flat(memory["image"])[:, None], beam_size, 1)
        return {"image": image, "tape": tf.zeros_like(image[..., : self.hidden_size])}

    def step(
        self, x: Any, index: Any, weights: list[Any], memory: Memory, state: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """One new position; arguments and result are those of ``interfaces.DecoderPart.step``."""
        maps, beam_size = self.hidden_size, x.shape[1]
        shape = tf.shape(state["image"])
        image = tf.reshape(state["image"], tf.stack([-1, shape[2], self.channels]))
        here = tf.cast(tf.range(shape[2]) == index - 1, tf.float32)[None, None, :, None]
        tape = state["tape"] + here * tf.cast(x, tf.float32)[:, :, None]
        rows = tf.repeat(memory["rows"], beam_size, 0)[..., None]
        image = self.work(
            image, weights, index, rows, tf.reshape(tape, tf.stack([-1, shape[2], maps]))
        )
        states = tf.reshape(self._row(image, index), [-1, beam_size, maps])
        return states, {"image": tf.reshape(image, shape), "tape": tape}

    def _flat(self, image: Any) -> Any:
        """The image with each row as one vector, [batch, rows, channels]."""
        return tf.ensure_shape(
            tf.reshape(image, tf.concat([tf.shape(image)[:2], [self.channels]], 0)),
            [None, None, self.channels],
        )

    def _row(self, image: Any, number: Any) -> Any:
        """The first column's cell of row `number`, [batch, maps]; zeros beyond the image."""
        here = tf.cast(tf.range(tf.shape(image)[1]) == number, tf.float32)[None, :, None]
        return tf.reduce_sum(image[..., : self.hidden_size] * here, 1)
