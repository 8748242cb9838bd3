"""Numbers as the document holds them: rounded floats, and attention weights as bytes."""

import base64
from typing import Any

import numpy as np

DIGITS = 4
MOST_KEYS = 64
"""Where a query sees more keys, only the strongest are kept."""
KEPT_KEYS = 16
MOST_WEIGHTS = 1_000_000
"""Where an attention has more weights, its heads are averaged."""


def rounded(values: Any) -> Any:
    """A float, or nested lists of an array's floats, rounded to 4 digits."""
    return np.round(np.asarray(values, np.float64), DIGITS).tolist()


def encoded_attention(weights: np.ndarray | None) -> dict[str, Any] | None:
    """Attention weights as the document holds them.

    Args:
      weights: float32 [steps, heads, queries, keys], or None.

    Returns:
      {"shape": [steps, heads, queries, kept keys], "indices": base64 of uint16 (little endian) key
      numbers, strongest first, or None where all keys are kept; "weights": base64 of uint8,
      round(255 * weight); "averaged": whether "heads" is 1, their mean}; None for None.
    """
    if weights is None:
        return None
    averaged = weights.size > MOST_WEIGHTS and weights.shape[1] > 1
    if averaged:
        weights = weights.mean(axis=1, keepdims=True)
    indices = None
    if weights.shape[-1] > MOST_KEYS:
        strongest = np.argsort(-weights, axis=-1, kind="stable")[..., :KEPT_KEYS]
        indices = _base64(strongest.astype("<u2"))
        weights = np.take_along_axis(weights, strongest, -1)
    levels = np.clip(np.round(255.0 * weights), 0, 255).astype(np.uint8)
    return {
        "shape": list(weights.shape),
        "indices": indices,
        "weights": _base64(levels),
        "averaged": averaged,
    }


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
