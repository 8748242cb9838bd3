"""Keras layers: attention, transition, coordinates, recurrence, halting.

``UniversalTransformerEncoder`` is the one to use in a model of your own; it is imported when first
used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ut_tf.models.universal_transformer.encoder import UniversalTransformerEncoder

__all__ = ["UniversalTransformerEncoder"]

_SOURCES = {"UniversalTransformerEncoder": "ut_tf.models.universal_transformer.encoder"}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}"
        )
    return getattr(importlib.import_module(_SOURCES[name]), name)


def __dir__() -> list[str]:
    return __all__
