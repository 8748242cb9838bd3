"""What an encoder hands to a decoder, or to a classifier, in the models of
``models/stateful_model.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Encoded(NamedTuple):
    """An encoder's result.

    Fields:
      states: [batch, length, hidden_size].
      keep: float32 [batch, length], 0 where the states stand for nothing.
      summary: [batch, hidden_size], the state that has read everything; None: that of the last
        symbol.
      extra: a structure of tensors with the examples on the first axis, whatever else its own
        decoder reads.
    """

    states: Any
    keep: Any
    summary: Any = None
    extra: Any = None
