"""Layers that return None among their tensors, usable in a Functional model."""

from typing import Any

import keras


class _Absent(keras.KerasTensor):  # type: ignore[misc]
    """Stands for a None among a layer's outputs in the graph of a Functional model."""

    def __init__(self) -> None:
        super().__init__(shape=())


class OptionalOutputs:
    """Mixin, before ``keras.layers.Layer``, for layers whose call returns a tuple of a tensor and
    then structures of tensors and None.

    Keras accepts only tensors as a node's outputs and matches them by their order with what the
    layer returns at run time. The node therefore gets a placeholder for each None, and the caller
    of the layer gets the None.
    """

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().compute_output_spec(*args, **kwargs)  # type: ignore[misc]
        return keras.tree.map_structure(
            lambda output: _Absent() if output is None else output, outputs
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().__call__(*args, **kwargs)  # type: ignore[misc]
        if not isinstance(outputs[0], keras.KerasTensor):
            return outputs
        return keras.tree.map_structure(
            lambda output: None if isinstance(output, _Absent) else output, outputs
        )
