"""The configuration of Transformers with memory.

How it is used::

    MemoryTransformerConfig(num_layers=6, memory_size=10)
"""

from dataclasses import dataclass

from ut_tf.config.attention import AttentionModelConfig
from ut_tf.config.groups import LayersConfig, MemoryConfig


@dataclass(frozen=True, kw_only=True)
class MemoryTransformerConfig(MemoryConfig, LayersConfig, AttentionModelConfig):
    """A Transformer with learned memory in front of the sequence (arXiv 2006.11527)."""
