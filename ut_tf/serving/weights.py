"""A model's weights as an exported model keeps them: float32, bfloat16, or int8 with scales.

Example::

    stored = StoredWeights(model, "int8")
    with stored.scope(model):                  # inside a tf.function
        logits = model(features)               # computed from the stored form

int8 keeps one float32 scale per output channel: per column of a kernel, per row of an embedding
table (a row makes one logit). The weights are multiplied out again once per call, so this saves
size, not time. A variable that is small or not a matrix stays float32.
"""

import math
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from ut_tf.models.universal_transformer.halting.base import Halting

StoredForm = Literal["float32", "bfloat16", "int8"]

_SMALL = 1024
_LEVELS = 127.0
# Names of the variables whose rows, not columns, are channels: ours and Keras's.
_EMBEDDINGS = ("table", "embeddings")


class StoredWeights(tf.Module):  # type: ignore[misc]
    """The values that a model's variables have now, in a stored form.

    Args:
      model: a built keras.Model.
      form: float32, bfloat16 (matrices rounded to 8 bits of mantissa) or int8 (matrices rounded to
        255 levels per channel).
    """

    def __init__(self, model: Any, form: StoredForm = "float32") -> None:
        super().__init__()
        seeds = _seeds_in_use(model)
        self._stored = [
            _Seed(variable) if id(variable) in seeds else _stored(variable, form)
            for variable in model.variables
        ]

    def scope(self, model: Any) -> Any:
        """A context in which `model`, built like the one given, computes with these weights; none
        of its variables changes in it.

        Keras reads each variable from a tensor that is computed from its stored form. A graph
        traced here holds no variable of the model, so that it is saved without the model.
        In every context, and in a graph at every call, a layer that draws at inference
        (halting="random") begins with another seed.
        """
        return _ReadOnlyScope(
            [
                (variable, stored())
                for variable, stored in zip(model.variables, self._stored, strict=True)
            ]
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of the stored values."""
        return sum(
            math.prod(variable.shape) * variable.dtype.size
            for stored in self._stored
            for variable in stored.variables
        )


def constant_scope(model: Any) -> Any:
    """A context in which `model` computes with the values that its variables have now, as constants
    of the graph that is traced in it.
    """
    # Read as numbers first: a graph captures tensors that exist outside of it as its inputs.
    with tf.init_scope():
        values = [variable.numpy() for variable in model.variables]
    return _ReadOnlyScope(
        [
            (variable, tf.constant(value))
            for variable, value in zip(model.variables, values, strict=True)
        ]
    )


class _ReadOnlyScope(keras.StatelessScope):  # type: ignore[misc]
    """A scope whose variables keep their values: random generators too, so that their states do not
    leak out of loops.
    """

    def add_update(self, update: tuple[Any, Any]) -> None:
        del update


class _Plain(tf.Module):  # type: ignore[misc]
    """A value in a given dtype."""

    def __init__(self, variable: Any, dtype: Any) -> None:
        super().__init__()
        self._value = _constant(tf.cast(variable.value, dtype), variable.path)
        self._dtype = variable.dtype

    def __call__(self) -> Any:
        return tf.cast(self._value, self._dtype)


class _Seed(tf.Module):  # type: ignore[misc]
    """The seed of a layer that draws at inference, another one at every call."""

    def __init__(self, variable: Any) -> None:
        super().__init__()
        # Keras's generators count their draws in the second number; int64, as TensorFlow has no
        # sums of uint32 variables.
        self._value = _constant(tf.cast(variable.value, tf.int64), variable.path)
        self._dtype = variable.dtype

    def __call__(self) -> Any:
        return tf.cast(self._value.assign_add([0, 1]), self._dtype)


class _Scaled(tf.Module):  # type: ignore[misc]
    """A matrix as int8 times a scale per output channel; values are off by at most half a scale."""

    def __init__(self, variable: Any) -> None:
        super().__init__()
        value = variable.numpy().astype(np.float32)
        # One scale holds over this axis.
        axis = 1 if variable.name in _EMBEDDINGS else 0
        scale = np.abs(value).max(axis=axis, keepdims=True) / _LEVELS
        levels = np.rint(value / np.where(scale > 0, scale, 1.0)).astype(np.int8)
        self._levels = _constant(levels, f"{variable.path}/levels")
        self._scale = _constant(scale, f"{variable.path}/scale")

    def __call__(self) -> Any:
        return tf.cast(self._levels, tf.float32) * self._scale


def _seeds_in_use(model: Any) -> set[int]:
    """The ids of the seeds of layers that draw random numbers at inference too."""
    units = [layer for layer in model._flatten_layers() if isinstance(layer, Halting)]
    return {id(unit.seed_generator.state) for unit in units if unit.seed_generator is not None}


def _stored(variable: Any, form: StoredForm) -> Any:
    matrix = (
        len(variable.shape) == 2
        and math.prod(variable.shape) >= _SMALL
        and variable.dtype == "float32"
    )
    if form == "float32" or not matrix:
        return _Plain(variable, variable.dtype)
    return _Plain(variable, tf.bfloat16) if form == "bfloat16" else _Scaled(variable)


def _constant(value: Any, name: str) -> Any:
    return tf.Variable(value, trainable=False, name=name.replace("/", "_"))
