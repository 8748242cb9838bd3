"""Layers that are given their parts, and the helpers of layers of several parts."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import keras


def keep_parts(layer: Any, name: str, parts: Iterable[Any]) -> None:
    """Keeps the parts of a layer in its attributes name_0, name_1, ..."""
    # TensorFlow's checkpoints name attributes, which lists would name otherwise.
    for number, part in enumerate(parts):
        setattr(layer, f"{name}_{number}", part)


def kept_parts(layer: Any, name: str, count: int) -> list[Any]:
    """The parts that ``keep_parts`` kept, the first one first."""
    return [getattr(layer, f"{name}_{number}") for number in range(count)]


def build_parts(parts: Iterable[Any], input_shape: Any) -> None:
    """Builds the parts that are not built yet; None stands for a part that is left out."""
    for part in parts:
        if part is not None and not part.built:
            part.build(input_shape)


class Composite(keras.layers.Layer):  # type: ignore[misc]
    """Base class of layers whose constructor takes other layers: its configuration holds theirs.

    Each argument of a subclass' constructor is kept in the attribute of the same name, or in the
    one that ``attributes`` gives for it. Arguments are layers, lists of layers, None and plain
    values.
    """

    attributes: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def get_config(self) -> dict[str, Any]:
        names = [
            name
            for name in inspect.signature(type(self).__init__).parameters
            if name not in ("self", "kwargs")
        ]
        own = {name: getattr(self, self.attributes.get(name, name)) for name in names}
        return {**super().get_config(), **{name: _serialized(value) for name, value in own.items()}}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(
            **{name: keras.saving.deserialize_keras_object(part) for name, part in config.items()}
        )


def _serialized(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_serialized(part) for part in value]
    serialized = keras.saving.serialize_keras_object(value)
    if isinstance(serialized, dict):
        # Parts are built with the layer that they are part of, so that their weights have its name.
        serialized.pop("build_config", None)
    return serialized
