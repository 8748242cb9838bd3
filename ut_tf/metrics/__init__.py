"""Measurements: losses, counts per example, their sums, intervals, BLEU; and Keras metrics for
``model.compile``, imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ut_tf.metrics.token_accuracy import TokenAccuracy

__all__ = ["TokenAccuracy"]

_SOURCES = {"TokenAccuracy": "ut_tf.metrics.token_accuracy"}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}"
        )
    return getattr(importlib.import_module(_SOURCES[name]), name)


def __dir__() -> list[str]:
    return __all__
