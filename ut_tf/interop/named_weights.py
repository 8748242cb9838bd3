"""Weights of another system's file, each taken once by its name."""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from ut_tf.errors import UserError

Array = npt.NDArray[Any]


class NamedWeights:
    """The arrays of a file that have not been taken yet.

    Args:
      arrays: by name.
      place: the file, for errors.
    """

    def __init__(self, arrays: Mapping[str, Array], place: str) -> None:
        self._left = dict(arrays)
        self._place = place

    def take(self, name: str, *shape: int) -> Array:
        """Returns the array of a name.

        Raises:
          UserError: there is none, it has been taken before, or it has another shape.
        """
        if name not in self._left:
            raise UserError(
                f"{self._place} has no weight {name}: expected those of its configuration."
            )
        array = self._left.pop(name)
        if array.shape != shape:
            raise UserError(
                f"{self._place}: {name} is {list(array.shape)} where its configuration asks for"
                f" {list(shape)}."
            )
        return array

    def finish(self) -> None:
        """Raises UserError where an array is left."""
        if self._left:
            raise UserError(
                f"{self._place} has {min(self._left)}, of which the configuration says nothing."
            )
