"""ut_tf: Universal Transformers for TensorFlow and Keras.

The names below are imported when first used, so that ``import ut_tf`` and the commands' ``--help``
stay fast::

    import ut_tf
    spec = ut_tf.ProblemSpec("tokens", "tokens", 64, 64, shared_vocab=True)
    model = ut_tf.UniversalTransformer(ut_tf.UniversalTransformerConfig(hidden_size=128), spec)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ut_tf.version import __version__

if TYPE_CHECKING:
    from ut_tf import config, layers, metrics
    from ut_tf.config.hparams import HParams
    from ut_tf.config.training import TrainingConfig
    from ut_tf.evaluation.evaluator import evaluate
    from ut_tf.inference.refill import Refill
    from ut_tf.inference.translator import Translator
    from ut_tf.insights.inspector import inspect_run
    from ut_tf.keras_classes import load_keras_model
    from ut_tf.models.transformer.config import TransformerConfig
    from ut_tf.models.transformer.model import Transformer
    from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
    from ut_tf.models.universal_transformer.model import UniversalTransformer
    from ut_tf.problem_spec import ProblemSpec
    from ut_tf.run import Run
    from ut_tf.run_weights import load_model
    from ut_tf.search.config import DecodeConfig
    from ut_tf.sharing.loading import load
    from ut_tf.sharing.saving import save
    from ut_tf.training.trainer import train

__all__ = [
    "DecodeConfig",
    "HParams",
    "ProblemSpec",
    "Refill",
    "Run",
    "TrainingConfig",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "UniversalTransformer",
    "UniversalTransformerConfig",
    "__version__",
    "config",
    "evaluate",
    "inspect_run",
    "layers",
    "load",
    "load_keras_model",
    "load_model",
    "metrics",
    "save",
    "train",
]

_SOURCES = {
    "HParams": "ut_tf.config.hparams",
    "TrainingConfig": "ut_tf.config.hparams",
    "TransformerConfig": "ut_tf.models.transformer.config",
    "UniversalTransformerConfig": "ut_tf.models.universal_transformer.config",
    "ProblemSpec": "ut_tf.problem_spec",
    "Run": "ut_tf.run",
    "DecodeConfig": "ut_tf.search.config",
    "Refill": "ut_tf.inference.refill",
    "Translator": "ut_tf.inference.translator",
    "Transformer": "ut_tf.models.transformer.model",
    "UniversalTransformer": "ut_tf.models.universal_transformer.model",
    "load_keras_model": "ut_tf.keras_classes",
    "load": "ut_tf.sharing.loading",
    "load_model": "ut_tf.run_weights",
    "save": "ut_tf.sharing.saving",
    "train": "ut_tf.training.trainer",
    "evaluate": "ut_tf.evaluation.evaluator",
    "inspect_run": "ut_tf.insights.inspector",
}


_PACKAGES = ("config", "layers", "metrics")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return _imported(f"ut_tf.{name}")
    if name == "NetworkConfig":
        raise AttributeError(
            "each model has a configuration of its own since 1.0: NetworkConfig is now"
            " UniversalTransformerConfig, TransformerConfig, ... (ut_tf.config has all of them)"
        )
    if name not in _SOURCES:
        raise AttributeError(
            f"module 'ut_tf' has no attribute {name!r}; it offers {', '.join(__all__)}"
        )
    return getattr(_imported(_SOURCES[name]), name)


def _imported(module: str) -> Any:
    # Here, since all that is imported before a command's first line delays its Ctrl-C (bin/entry).
    from ut_tf.loading import load_module

    return load_module(module)


def __dir__() -> list[str]:
    return __all__


# Keras loads a saved model only if its classes have been imported. Where Keras is there already
# (TensorFlow imports it), they cost little; elsewhere they would load TensorFlow, and
# ``load_keras_model`` imports them.
if "keras" in sys.modules:
    from ut_tf.keras_classes import register_keras_classes

    register_keras_classes()
