"""What tests read from a document of insights."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).resolve().parents[1] / "stored_runs"


def attention(part: dict[str, Any], name: str = "attention") -> np.ndarray:
    """The weights, float [steps, heads, length, keys], of an attention that keeps all keys."""
    stored = part[name]
    assert stored["indices"] is None
    levels = np.frombuffer(base64.b64decode(stored["weights"]), np.uint8)
    return levels.reshape(stored["shape"]) / 255.0


def numbers(part: dict[str, Any], name: str) -> list[float]:
    """A number of every position."""
    return [position[name] for position in part["positions"]]


def texts(part: dict[str, Any]) -> list[str]:
    return [position["text"] for position in part["positions"]]


def best(part: dict[str, Any], step: int = -1) -> list[str]:
    """The most probable answer after a step, of a classifier or at each position."""
    return [choices[0]["text"] for choices in part["predictions"][step]]
