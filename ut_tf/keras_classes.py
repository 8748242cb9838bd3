"""The classes that Keras looks up by name when it loads a ``.keras`` file."""

from __future__ import annotations

import importlib
import json
import zipfile
from pathlib import Path
from typing import Any

from ut_tf.data.unpacking import check_unpacked
from ut_tf.layers.catalogue import POSITIONS, TRANSITIONS
from ut_tf.models.bounded import bounded_variables, check_layers
from ut_tf.models.catalogue import MODELS
from ut_tf.models.universal_transformer.catalogue import CELLS, EXIT_RULES, HALTING_FORMS

# A compiled model is loaded with its optimizer, which may keep several numbers of each parameter
# that are not in the file; parameters may be stored in one byte each.
_NUMBERS_PER_BYTE = 4
_CONFIG_FILE = "config.json"

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
    because they would load TensorFlow, and this function imports them. It also bounds the model by
    the size of the file: a configuration alone cannot fill the memory.

    Args:
      filepath: of the ``.keras`` file.
      **options: of ``keras.models.load_model``: custom_objects, compile, safe_mode.

    Returns:
      the keras.Model.

    Raises:
      UserError: its configuration makes more parameters than the file holds.
    """
    import keras

    register_keras_classes()
    with bounded_variables(_most_numbers(Path(filepath))):
        return keras.models.load_model(filepath, **options)


def _most_numbers(path: Path) -> int | None:
    """The most numbers that a model and its optimizer can have, by the size of their ``.keras``
    file; None: it is another file.

    Raises:
      UserError: it unpacks to more than it may, or asks for more layers than it could hold.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_unpacked(members, path)
            most = sum(member.file_size for member in members) * _NUMBERS_PER_BYTE
            check_layers(json.loads(archive.read(_CONFIG_FILE)), most)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, RecursionError):
        return None  # Keras says what it is.
    return most
