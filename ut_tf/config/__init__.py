"""Typed hyperparameters: their fields, their groups, and how they are read and overridden."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ut_tf.config.hparams import HParams as HParams
from ut_tf.config.training import TrainingConfig as TrainingConfig

if TYPE_CHECKING:
    from ut_tf.models.convolutional.config import ByteNetConfig as ByteNetConfig
    from ut_tf.models.convolutional.config import ConvS2SConfig as ConvS2SConfig
    from ut_tf.models.lstm.config import LSTMConfig as LSTMConfig
    from ut_tf.models.memn2n.config import MemN2NConfig as MemN2NConfig
    from ut_tf.models.memory_transformer.config import (
        MemoryTransformerConfig as MemoryTransformerConfig,
    )
    from ut_tf.models.neural_gpu.config import NeuralGPUConfig as NeuralGPUConfig
    from ut_tf.models.transformer.config import TransformerConfig as TransformerConfig
    from ut_tf.models.universal_transformer.config import (
        ConditionalUniversalTransformerConfig as ConditionalUniversalTransformerConfig,
    )
    from ut_tf.models.universal_transformer.config import (
        UniversalTransformerConfig as UniversalTransformerConfig,
    )

_FAMILIES = {
    "ByteNetConfig": "convolutional",
    "ConditionalUniversalTransformerConfig": "universal_transformer",
    "ConvS2SConfig": "convolutional",
    "LSTMConfig": "lstm",
    "MemN2NConfig": "memn2n",
    "MemoryTransformerConfig": "memory_transformer",
    "NeuralGPUConfig": "neural_gpu",
    "TransformerConfig": "transformer",
    "UniversalTransformerConfig": "universal_transformer",
}


def __getattr__(name: str) -> Any:
    if name not in _FAMILIES:
        raise AttributeError(f"module 'ut_tf.config' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ut_tf.models.{_FAMILIES[name]}.config"), name)
