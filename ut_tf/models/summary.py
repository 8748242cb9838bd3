"""The summary of a model: ``keras.Model.summary`` with the parts of its layers, and with shapes.

Keras shows the layers of a model alone, and of one that its owner built the shape "?".
"""

from collections.abc import Mapping
from typing import Any

import keras

from ut_tf.layers.composite import Composite
from ut_tf.layers.dropout import Dropout

Shape = tuple[int | None, ...]


def print_summary(model: Any, shape: Shape, shapes: Mapping[str, Shape], **options: Any) -> None:
    """Prints the layers of a model, below each what it is made of.

    Args:
      model: a built keras.Model.
      shape: of the output of a layer, where `shapes` has no other.
      shapes: by the name of the layer.
      options: of ``keras.Model.summary``.
    """
    keras.Model.summary(_Shown(model, shape, shapes), **options)


class _Shown:
    """A layer as ``keras.Model.summary`` reads it."""

    _inbound_nodes = ()

    def __init__(self, layer: Any, shape: Shape, shapes: Mapping[str, Shape]) -> None:
        self._shown = layer
        self.output_shape = shapes.get(layer.name, shape)
        self._build_shapes_dict = {"input_shape": shape}
        self.layers = []
        # The matrices within attention and transition say little, in shapes of their own.
        if isinstance(layer, Composite | keras.Model):
            parts = layer._flatten_layers(include_self=False, recursive=False)
            told = [part for part in parts if not isinstance(part, Dropout)]
            self.layers = [_Shown(part, shape, shapes) for part in told]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        # Keras writes its name.
        return type(self._shown)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)
