"""The summary of a model: ``keras.Model.summary`` with the parts of its layers, and with shapes.

Keras shows the layers of a model alone, and of one that its owner built the shape "?".
"""

from collections.abc import Mapping
from typing import Any

import keras

from ut_tf.layers.composite import Composite
from ut_tf.layers.dropout import Dropout

Shape = tuple[int | None, ...]


class ShownLayer:
    """A layer or a model as ``keras.Model.summary`` reads it: below it what it is made of.

    Args:
      layer: built.
      shape: of the output of a layer, where `shapes` has no other.
      shapes: by the name of the layer.
    """

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
            self.layers = [ShownLayer(part, shape, shapes) for part in told]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        # Keras writes its name.
        return type(self._shown)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)
