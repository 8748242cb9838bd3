"""The Neural GPU's mental image, worked on as often as the input is long, and the Extended Neural
GPU's output tape.

How it is used::

    encoded = ImageEncoder(network)(inputs, keep, training=True)  # inputs [batch, length, maps]
    # [batch, rows, maps], [batch, rows, image_width * maps]
    states, image = encoded.states, encoded.extra
    decoder = TapeDecoder(network)
    # [batch, target_length, maps]
    states, _ = decoder(targets, decoder.read(encoded), training=True)

How it works: an input of length n stands in the first column of an image of ⌈source_stretch · n⌉
rows, one symbol in each, with zeros in all other cells. A step applies num_layers CGRUs
(``convolutional_gru.py``), one after the other; there are as many steps as rows, so that the work
is quadratic in the length, and every cell is reached from every other. The first column of the last
image is read (arXiv 1511.08228).

The Extended Neural GPU (arXiv 1610.08613) has a decoder d that starts from the last image, and an
output tape p of the same rows, which is empty at first. Step k reads the whole tape, and the k-th
output is read from row k; its symbol is then written on the tape, in row k::

    d_{k+1} = CGRU^d(d_k, p_k);   o_k = softmax(O d_{k+1}[k]);   p_{k+1} = p_k with the embedded o_k
        in row k

In training all o_k are known, so p_k is a mask on the embedded targets. An output longer than the
image reads zeros beyond.

Each example has its own rows and its own number of steps: what lies beyond is zero and does not
change, so that neither padding nor the other examples of its batch matter to it. Dropout falls on
the image after every CGRU in training; with the rate p = dropout and n steps it drops with
probability p · min(1, 8 / n), or nothing would be left of a long computation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.layers.dropout import replica_seed
from ut_tf.layers.encoded import Encoded
from ut_tf.models.convolutional.dilated_convolutions import stretched
from ut_tf.models.neural_gpu.convolutional_gru import ConvolutionalGRU

# Steps up to which dropout has its full rate.
_FULL_DROPOUT_STEPS = 8.0


def _units_of(model: Any) -> list[ConvolutionalGRU]:
    """Returns all CGRUs of a model."""
    return [
        unit for worker in model.layers if isinstance(worker, _ImageWorker) for unit in worker.units
    ]


def relaxed_weights(model: Any) -> list[Any]:
    """Returns the parameters of a model of which there are several sets, each [sets, ...]."""
    return [weight for unit in _units_of(model) for weight in unit.trainable_variables]


def tie(model: Any, tied: bool = True) -> None:
    """Lets the mean of all sets of parameters take the place of each, in all of a model's CGRUs;
    not tied: they part again, from there.
    """
    for unit in _units_of(model):
        unit.tie(tied)


class _ImageWorker(keras.layers.Layer):  # type: ignore[misc]
    """What encoder and decoder share: num_layers CGRUs in turn, and dropout behind each."""

    def __init__(self, network: NetworkConfig, with_tape: bool, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.channels = network.image_width * network.hidden_size
        # Attributes of their own: TensorFlow's checkpoints find those.
        for number in range(network.num_layers):
            unit = ConvolutionalGRU(
                network, with_tape, name=f"unit_{number}", dtype=self.dtype_policy
            )
            setattr(self, f"unit_{number}", unit)
        self.seed_generator = keras.random.SeedGenerator() if network.dropout > 0 else None

    def build(self, *_: Any) -> None:
        for unit in self.units:
            unit.build()
        self.built = True

    @property
    def units(self) -> list[ConvolutionalGRU]:
        """The CGRUs, the first one first."""
        return [getattr(self, f"unit_{number}") for number in range(self.network.num_layers)]

    def prepare(self) -> list[Any]:
        """Returns the weights for ``work``."""
        return [unit.prepare() for unit in self.units]

    def work(
        self,
        image: Any,
        weights: list[Any],
        number: Any,
        active: Any,
        tape: Any = None,
        drop: Any = None,
    ) -> Any:
        """Returns the image after one step.

        Args:
          image: float32 [batch, rows, image_width * maps].
          weights: from ``prepare``.
          number: int32 [], of the step.
          active: float32 [batch, rows, 1], 0 where nothing changes.
          tape: [batch, rows, maps], or None.
          drop: from ``dropping``.
        """
        for place, (unit, unit_weights) in enumerate(zip(self.units, weights, strict=True)):
            image = unit.step(image, unit.choose(unit_weights, number), active, tape)
            if drop is not None:
                image = drop(image, number * self.network.num_layers + place, active)
        return image

    def dropping(self, steps: Any, training: bool) -> Callable[[Any, Any, Any], Any] | None:
        """Returns what drops cells of an image in application number `n`, given the steps float32
        [batch] of each example.
        """
        if not training or self.seed_generator is None:
            return None
        seed = replica_seed(self.seed_generator.next())
        rate = (
            self.network.dropout
            * tf.minimum(1.0, _FULL_DROPOUT_STEPS / tf.maximum(steps, 1.0))[:, None, None]
        )

        def drop(image: Any, number: Any, active: Any) -> Any:
            draws = tf.random.stateless_uniform(tf.shape(image), tf.random.fold_in(seed, number))
            share = rate * active
            return tf.where(draws < share, 0.0, image / (1.0 - share))

        return drop

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "network": self.network.to_dict()}


@keras.saving.register_keras_serializable("ut_tf")
class ImageEncoder(_ImageWorker):
    """CGRUs repeated over the embedded inputs, as often as these are long.

    Args:
      network: NetworkConfig.
      stretch: rows, and steps, per symbol; 1 for a classifier.

    Call arguments:
      inputs: [batch, length, maps].
      keep: float32 [batch, length], 0 on padding.
      training: whether to drop.

    Returns:
      Encoded: states float32 [batch, rows, maps], the first column; keep, 0 beyond an example's own
        rows; extra float32
      [batch, rows, image_width * maps], the image.
    """

    def __init__(self, network: NetworkConfig, stretch: float = 1.0, **kwargs: Any) -> None:
        super().__init__(network, with_tape=False, **kwargs)
        self.stretch = stretch

    def call(self, inputs: Any, keep: Any, training: bool = False) -> Encoded:
        length, maps = tf.shape(inputs)[1], self.network.hidden_size
        rows = stretched(length, self.stretch)
        steps = stretched(tf.reduce_sum(keep, 1), self.stretch)
        # Words that are left out embed as zeros, like padding: only the lengths tell them apart.
        represented = tf.cast(tf.range(rows)[None] < steps[:, None], tf.float32)
        first = tf.cast(inputs, tf.float32) * keep[..., None]
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
        return Encoded(image[..., :maps], represented, extra=image)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "stretch": self.stretch}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ImageEncoder:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})


@keras.saving.register_keras_serializable("ut_tf")
class TapeDecoder(_ImageWorker):
    """An Extended Neural GPU's decoder: one step of its CGRUs for each output symbol, beside a tape
    of those before it.

    Args:
      network: NetworkConfig.

    Call arguments:
      inputs: [batch, target_length, maps], the embedded symbols before each position; the first
        stands for none and is not read.
      memory: what ``read`` returned.
      training: whether to drop.

    Returns:
      (states float32 [batch, target_length, maps], an empty list: there is no attention).
    """

    def __init__(self, network: NetworkConfig, **kwargs: Any) -> None:
        super().__init__(network, with_tape=True, **kwargs)

    def call(
        self, inputs: Any, memory: dict[str, Any], training: bool = False
    ) -> tuple[Any, list[Any]]:
        image, active = self._flat(memory["image"]), memory["rows"][..., None]
        size, length = tf.shape(image)[1], tf.shape(inputs)[1]
        # Row j of the tape is symbol j, which stands before position j + 1.
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
            tf.float32, length, element_shape=[inputs.shape[0], self.network.hidden_size]
        )
        start = (tf.constant(0), image, states)
        _, _, states = tf.while_loop(
            lambda number, *_: number < length, body, start, maximum_iterations=length
        )
        return tf.transpose(states.stack(), [1, 0, 2]), []

    def read(self, encoded: Encoded) -> dict[str, Any]:
        """Returns the last image, "image" [batch, rows, image_width, maps], and which rows are an
        example's own, "rows" [batch, rows].
        """
        columns = [self.network.image_width, self.network.hidden_size]
        image = tf.reshape(encoded.extra, tf.concat([tf.shape(encoded.extra)[:2], columns], 0))
        return {
            "image": tf.ensure_shape(image, [*encoded.extra.shape[:2], *columns]),
            "rows": encoded.keep,
        }

    def start(self, memory: dict[str, Any], batch_size: Any, beam_size: int) -> dict[str, Any]:
        """Returns the image and the empty tape of each hypothesis, [batch, beam_size, rows,
        channels] and [..., maps].
        """
        del batch_size
        image = tf.repeat(self._flat(memory["image"])[:, None], beam_size, 1)
        return {"image": image, "tape": tf.zeros_like(image[..., : self.network.hidden_size])}

    def step(
        self, x: Any, index: Any, weights: list[Any], memory: dict[str, Any], state: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Computes one new position of n hypotheses per example; arguments and result as in
        ``DilatedDecoder.step``.
        """
        maps, beam_size = self.network.hidden_size, x.shape[1]
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
        """Returns the image with each row as one vector, [batch, rows, channels]."""
        return tf.ensure_shape(
            tf.reshape(image, tf.concat([tf.shape(image)[:2], [self.channels]], 0)),
            [None, None, self.channels],
        )

    def _row(self, image: Any, number: Any) -> Any:
        """Returns the first column's cell of row `number`, [batch, maps]; zeros beyond
        the image.
        """
        here = tf.cast(tf.range(tf.shape(image)[1]) == number, tf.float32)[None, :, None]
        return tf.reduce_sum(image[..., : self.network.hidden_size] * here, 1)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TapeDecoder:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
