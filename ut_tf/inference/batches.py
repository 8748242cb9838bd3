"""Examples of any length as batches of like length, outside any graph: what the translator decodes
and scores.

Example::

    examples = [Example(1, ids), Example(2, longer_ids)]
    for batch in like_length(examples, batch_size=32):
        features = stacked(batch)         # {"inputs": int32 [batch, length]}
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]

# Positions of a batch's inputs, padding included: what the attention weights of 1,000 symbols leave
# in some hundred megabytes.
MOST_POSITIONS = 8192
# Outputs of each example beside which that leaves the decoder enough; of more outputs, fewer
# examples fit.
_OUTPUTS = 4


@dataclass(frozen=True, eq=False)
class Example:
    """One example as ids, without padding.

    Args:
      number: of the example, from 1.
      inputs: int32 [length], or of facts [rows, words].
      targets: int32 [length], or of a class []; None where there are none.
    """

    number: int
    inputs: Ids
    targets: Ids | None = None

    @property
    def length(self) -> int:
        """The longer of inputs and targets, at least 1."""
        return max(
            1,
            len(self.inputs),
            len(self.targets) if self.targets is not None and self.targets.ndim else 0,
        )


def trimmed(ids: Ids) -> Ids:
    """ids [length] or [rows, words] of one example without the zeros (rows of zeros) that
    end them.
    """
    filled = np.flatnonzero(ids if ids.ndim == 1 else ids.any(axis=1))
    return ids[: filled[-1] + 1 if filled.size else 0]


def positions_beside(outputs: int) -> int:
    """How many positions the inputs of a batch may have, padding included, where each
    example has so many outputs at once.
    """
    return MOST_POSITIONS * _OUTPUTS // max(outputs, _OUTPUTS)


def like_length(
    examples: Iterable[Example], batch_size: int, most_positions: int = MOST_POSITIONS
) -> list[list[Example]]:
    """The examples in batches of like length, the batch with the earliest example first.

    A batch has at most `batch_size` examples, and at most `most_positions` positions with its
    padding where one example has no more.
    """
    batches: list[list[Example]] = []
    for example in sorted(examples, key=lambda example: (example.length, example.number)):
        size = len(batches[-1]) if batches else batch_size
        if size == batch_size or (size + 1) * example.length > most_positions:
            batches.append([])
        batches[-1].append(example)
    return sorted(batches, key=lambda batch: min(example.number for example in batch))


def stacked(batch: Sequence[Example]) -> dict[str, Any]:
    """{"inputs": int32 [batch, length, ...]}, padded with 0 to the longest, and "targets"
    where the examples have them.
    """
    features = {"inputs": _padded([example.inputs for example in batch])}
    targets = [example.targets for example in batch if example.targets is not None]
    return {**features, "targets": _padded(targets)} if targets else features


def _padded(arrays: Sequence[Ids]) -> Ids:
    shape = np.max([array.shape for array in arrays], axis=0)
    # A batch of empty inputs has one position all the same: no network can read none.
    shape = np.maximum(shape, 1) if shape.size else shape
    result = np.zeros((len(arrays), *(int(size) for size in shape)), np.int32)
    for row, array in enumerate(arrays):
        place: tuple[Any, ...] = (row, *(slice(size) for size in array.shape))
        result[place] = array
    return result
