"""Functions without graphs: tracing those of a tiny network takes longer than computing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf


@contextmanager
def eager_functions() -> Iterator[None]:
    """Runs what is a tf.function without tracing it."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)
