"""The classes that Keras looks up by name when it loads a ``.keras`` file."""

import contextlib
import importlib
import json
import zipfile
from pathlib import Path
from typing import Any

from ut_tf.data.unpacking import check_unpacked
from ut_tf.errors import UserError
from ut_tf.layers.catalogue import POSITIONS, TRANSITIONS
from ut_tf.models.bounded import bounded_variables, check_layers
from ut_tf.models.catalogue import MODELS
from ut_tf.models.universal_transformer.catalogue import CELLS, EXIT_RULES, HALTING_FORMS
from ut_tf.storage.files import MOST_JSON_BYTES, open_regular

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
      UserError: it is no regular file, or its configuration is too large or makes more parameters
        than the file holds.
    """
    import keras

    register_keras_classes()
    with bounded_variables(_most_numbers(Path(filepath))):
        return keras.models.load_model(filepath, **options)


def _most_numbers(path: Path) -> int | None:
    """The most numbers that a model and its optimizer can have, by the size of their ``.keras``
    file; None: it is another file, or there is none.

    Raises:
      UserError: it is no regular file, unpacks to more than it may, has a configuration that is too
        large, or asks for more layers than it could hold.
    """
    if not path.exists() or path.is_dir():
        return None  # Keras says what it is.
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            check_unpacked(members, path)
            most = sum(member.file_size for member in members) * _NUMBERS_PER_BYTE
            with contextlib.suppress(KeyError, ValueError, RecursionError):
                check_layers(json.loads(_configuration(archive, path)), most)
    except zipfile.BadZipFile:
        return None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror or error}): name a file that model.save has"
            " written."
        ) from error
    return most


def _configuration(archive: zipfile.ZipFile, path: Path) -> bytes:
    """The configuration in a ``.keras`` file, whose values may not fill the memory."""
    size = archive.getinfo(_CONFIG_FILE).file_size
    if size > MOST_JSON_BYTES:
        raise UserError(
            f"{path}: its {_CONFIG_FILE} has {size:,} bytes, expected at most {MOST_JSON_BYTES:,}:"
            " it was not written for a model of this size."
        )
    return archive.read(_CONFIG_FILE)
