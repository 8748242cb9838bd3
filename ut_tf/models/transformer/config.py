"""The configuration of a Transformer.

How it is used::

    TransformerConfig(hidden_size=512, num_heads=8, num_layers=6)
"""

from dataclasses import dataclass

from ut_tf.config.attention import AttentionModelConfig
from ut_tf.config.groups import LayersConfig


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(LayersConfig, AttentionModelConfig):
    """A Transformer of "Attention Is All You Need" (arXiv 1706.03762), in a small size."""
