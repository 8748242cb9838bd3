"""The classes that Keras looks up by name when it loads a ``.keras`` file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from ut_tf.layers.catalogue import POSITIONS, TRANSITIONS
from ut_tf.models.catalogue import MODELS
from ut_tf.models.universal_transformer.catalogue import CELLS, EXIT_RULES, HALTING_FORMS

# What stands in files: models, and parts that layers of a Functional model are made of.
_CATALOGUES = (MODELS, CELLS, HALTING_FORMS, EXIT_RULES, TRANSITIONS, POSITIONS)


def register_keras_classes() -> None:
    """Imports every module whose classes can stand in a saved Keras model: importing registers them
    with Keras.
    """
    modules = {entry.target.split(":")[0] for entries in _CATALOGUES for entry in entries.values()}
    for module in sorted(
        {*modules, "ut_tf.models.universal_transformer.encoder", "ut_tf.metrics.token_accuracy"}
    ):
        importlib.import_module(module)


def load_keras_model(filepath: str | Path, **options: Any) -> Any:
    """Loads a model that ``model.save("x.keras")`` has written, whatever was imported before.

    Keras finds a class by its name only after the class's module has been imported. ``import
    ut_tf`` imports them if Keras or TensorFlow was imported before it, and
    ``keras.models.load_model`` then works as well. Otherwise ``import ut_tf`` leaves them out,
    because they would load TensorFlow, and this function imports them.

    Args:
      filepath: of the ``.keras`` file.
      **options: of ``keras.models.load_model``: custom_objects, compile, safe_mode.

    Returns:
      the keras.Model.
    """
    import keras

    register_keras_classes()
    return keras.models.load_model(filepath, **options)
