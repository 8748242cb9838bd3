"""The transition functions and the position encodings, by name."""

from ut_tf.config.catalogues import read_catalogues

_PARTS = read_catalogues(__file__, __package__)
TRANSITIONS = _PARTS["transitions"]
POSITIONS = _PARTS["positions"]
