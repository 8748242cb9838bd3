"""Steps of convolutional GRUs over a mental image, which a Neural GPU's encoder and decoder share.

A step applies num_layers CGRUs (``convolutional_gru.py``), one after the other. Dropout falls on
the image after each CGRU in training; of n steps at the rate p it drops with probability p · min(1,
8 / n), or nothing would be left of a long computation.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.layers.dropout import replica_seed
from ut_tf.models.neural_gpu.convolutional_gru import ConvolutionalGRU

# Steps up to which dropout has its full rate.
_FULL_DROPOUT_STEPS = 8.0


def gru_layers(model: Any) -> list[ConvolutionalGRU]:
    """All CGRUs of a model."""
    return [unit for steps in model.layers if isinstance(steps, ImageSteps) for unit in steps.units]


def relaxed_weights(model: Any) -> list[Any]:
    """The relaxed parameters of a model: those with several sets, each [sets, ...]."""
    units = [unit for unit in gru_layers(model) if unit.relaxed_sets > 1]
    return [weight for unit in units for weight in unit.trainable_variables]


def tie(model: Any, tied: bool = True) -> None:
    """Replaces each set of parameters by the mean of all sets, in all of a model's CGRUs; with
    tied=False the sets differ again, from there.
    """
    for unit in gru_layers(model):
        unit.tie(tied)


class ImageSteps(keras.layers.Layer):  # type: ignore[misc]
    """num_layers CGRUs in turn, and dropout behind each.

    Args:
      hidden_size: maps of a cell.
      num_layers: CGRUs in a step.
      image_width, conv_kernel, gate_cutoff, relaxed_sets, kernel_init: as of ``ConvolutionalGRU``.
      dropout: rate on the image, see above.
    """

    with_tape: ClassVar[bool]
    """Whether the CGRUs also read an output tape."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int,
        image_width: int = 4,
        conv_kernel: int = 3,
        gate_cutoff: float = 1.2,
        relaxed_sets: int = 1,
        dropout: float = 0.0,
        kernel_init: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.image_width = image_width
        self.rate = dropout
        # TensorFlow's checkpoints find layers by their attributes.
        for number in range(num_layers):
            unit = ConvolutionalGRU(
                hidden_size,
                image_width=image_width,
                conv_kernel=conv_kernel,
                gate_cutoff=gate_cutoff,
                relaxed_sets=relaxed_sets,
                kernel_init=kernel_init,
                with_tape=self.with_tape,
                name=f"unit_{number}",
                dtype=self.dtype_policy.name,
            )
            setattr(self, f"unit_{number}", unit)
        self.seed_generator = keras.random.SeedGenerator() if dropout > 0 else None

    @property
    def channels(self) -> int:
        """Width of a row of the image."""
        return self.image_width * self.hidden_size

    def build(self, *_: Any) -> None:
        for unit in self.units:
            unit.build()
        self.built = True

    @property
    def units(self) -> list[ConvolutionalGRU]:
        """The CGRUs, the first one first."""
        return [getattr(self, f"unit_{number}") for number in range(self.num_layers)]

    def prepare(self) -> list[Any]:
        """The weights for ``work``."""
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
        """One step.

        Args:
          image: float32 [batch, rows, image_width * maps].
          weights: from ``prepare``.
          number: int32 [], of the step.
          active: float32 [batch, rows, 1], 0 where nothing changes.
          tape: [batch, rows, maps], or None.
          drop: from ``dropping``.

        Returns:
          the image after the step.
        """
        for layer, (unit, unit_weights) in enumerate(zip(self.units, weights, strict=True)):
            image = unit.step(image, unit.choose(unit_weights, number), active, tape)
            if drop is not None:
                image = drop(image, number * self.num_layers + layer, active)
        return image

    def dropping(self, steps: Any, training: bool) -> Callable[[Any, Any, Any], Any] | None:
        """A function drop(image, number, active) for the CGRU application `number`; None where
        nothing is dropped.

        Args:
          steps: float32 [batch], of each example.
          training: whether to drop.
        """
        if not training or self.seed_generator is None:
            return None
        seed = replica_seed(self.seed_generator.next())
        rate = (
            self.rate * tf.minimum(1.0, _FULL_DROPOUT_STEPS / tf.maximum(steps, 1.0))[:, None, None]
        )

        def drop(image: Any, number: Any, active: Any) -> Any:
            draws = tf.random.stateless_uniform(tf.shape(image), tf.random.fold_in(seed, number))
            share = rate * active
            return tf.where(draws < share, 0.0, image / (1.0 - share))

        return drop
