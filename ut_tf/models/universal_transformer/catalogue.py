"""The cells and the halting forms of a Universal Transformer, by name."""

from __future__ import annotations

from ut_tf.registry import Entry

_CELLS = "ut_tf.models.universal_transformer.cells"

CELLS = {
    "basic": Entry(f"{_CELLS}:BasicCell", "the block's output is the new state"),
    "highway": Entry(f"{_CELLS}:HighwayCell", "a gate carries the state past the block"),
    "skip": Entry(f"{_CELLS}:SkipCell", "a gate carries the embedded input past the block"),
    "dwa": Entry(f"{_CELLS}:DepthwiseAttentionCell", "attention over the states of all steps"),
    "gru": Entry(f"{_CELLS}:GRUCell", "a GRU over depth, in the transition's place"),
    "lstm": Entry(f"{_CELLS}:LSTMCell", "an LSTM over depth, in the transition's place"),
}
