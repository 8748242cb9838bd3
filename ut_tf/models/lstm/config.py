"""The configuration of the LSTMs.

How it is used::

    LSTMConfig(num_layers=2, lstm_attention="bahdanau")
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ut_tf.config.fields import option
from ut_tf.config.groups import EmbeddingConfig, LayersConfig, SizeConfig


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(LayersConfig, EmbeddingConfig, SizeConfig):
    """LSTMs as encoder and decoder, with or without attention (arXiv 1409.3215)."""

    title: ClassVar[str] = "LSTMs"

    lstm_attention: Literal["none", "luong", "bahdanau"] = option("none")
    """Attention of the decoder: none, luong (general score, from the top layer), bahdanau
    (additive, fed into the first layer).
    """
    lstm_direction: Literal["forward", "backward", "both"] = option("forward")
    """How the encoder reads its inputs; backward: from the last symbol (tensor2tensor); both: half
    of the width each.
    """
