"""Keras layers for models of your own, imported when first used.

``UniversalTransformerEncoder`` is the whole encoder. The others are the parts that it is made of:
``Recurrence`` repeats a ``Block`` of ``MultiHeadAttention`` and ``Transition``, and
``HaltingUnit`` (adaptive computation time) or ``FixedDepth`` ends the repetition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ut_tf.loading import load_module

if TYPE_CHECKING:
    from ut_tf.layers.attention import MultiHeadAttention
    from ut_tf.layers.block import Block, BlockContext
    from ut_tf.layers.coordinates import Coordinates
    from ut_tf.layers.transition import SeparableConvTransition, ShiftTransition, Transition
    from ut_tf.models.universal_transformer.cells import BasicCell, GRUCell, HighwayCell, LSTMCell
    from ut_tf.models.universal_transformer.encoder import UniversalTransformerEncoder
    from ut_tf.models.universal_transformer.halting.adaptive_computation_time import (
        Basic as HaltingUnit,
    )
    from ut_tf.models.universal_transformer.halting.fixed_depth import FixedDepth
    from ut_tf.models.universal_transformer.recurrence import Recurrence

__all__ = [
    "BasicCell",
    "Block",
    "BlockContext",
    "Coordinates",
    "FixedDepth",
    "GRUCell",
    "HaltingUnit",
    "HighwayCell",
    "LSTMCell",
    "MultiHeadAttention",
    "Recurrence",
    "SeparableConvTransition",
    "ShiftTransition",
    "Transition",
    "UniversalTransformerEncoder",
]

_MODEL = "ut_tf.models.universal_transformer"
_SOURCES = {
    "BasicCell": f"{_MODEL}.cells:BasicCell",
    "Block": "ut_tf.layers.block:Block",
    "BlockContext": "ut_tf.layers.block:BlockContext",
    "Coordinates": "ut_tf.layers.coordinates:Coordinates",
    "FixedDepth": f"{_MODEL}.halting.fixed_depth:FixedDepth",
    "GRUCell": f"{_MODEL}.cells:GRUCell",
    "HaltingUnit": f"{_MODEL}.halting.adaptive_computation_time:Basic",
    "HighwayCell": f"{_MODEL}.cells:HighwayCell",
    "LSTMCell": f"{_MODEL}.cells:LSTMCell",
    "MultiHeadAttention": "ut_tf.layers.attention:MultiHeadAttention",
    "Recurrence": f"{_MODEL}.recurrence:Recurrence",
    "SeparableConvTransition": "ut_tf.layers.transition:SeparableConvTransition",
    "ShiftTransition": "ut_tf.layers.transition:ShiftTransition",
    "Transition": "ut_tf.layers.transition:Transition",
    "UniversalTransformerEncoder": f"{_MODEL}.encoder:UniversalTransformerEncoder",
}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}"
        )
    module, _, attribute = _SOURCES[name].partition(":")
    return getattr(load_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
