"""The backend of Keras: ut-tf needs TensorFlow.

Neither TensorFlow nor Keras is imported here: Keras chooses its backend once, when it is imported.
"""

import json
import os
import sys
from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.notices import note

TENSORFLOW = "tensorflow"
_VARIABLE = "KERAS_BACKEND"


def check_backend() -> None:
    """Raises UserError where Keras has, or would begin with, another backend than TensorFlow."""
    loaded = _loaded()
    # Every look-up of a name comes here: the file of Keras is read only until Keras is imported.
    if loaded == TENSORFLOW:
        return
    backend, place, remedy = _chosen()
    if loaded is None and backend == TENSORFLOW:
        return
    if loaded not in (None, backend):
        backend, place, remedy = str(loaded), "the program has chosen", "choose tensorflow"
    raise UserError(
        f"ut-tf needs Keras' TensorFlow backend, but {place} {backend}: {remedy} before Keras is"
        " imported."
    )


def choose_tensorflow() -> None:
    """Lets Keras begin with TensorFlow in this process and those that it starts, whatever the user
    chose for other programs; a note says so.
    """
    backend, place, _ = _chosen()
    if backend != TENSORFLOW and _loaded() is None:
        os.environ[_VARIABLE] = TENSORFLOW
        note(f"this command uses Keras' TensorFlow backend, although {place} {backend}.")


def _chosen() -> tuple[str, str, str]:
    """The backend that Keras takes when it is imported, where that is said, and how to change it:
    by the rules of keras.src.backend.config.
    """
    backend = os.environ.get(_VARIABLE)
    if backend:
        remedy = f"unset it, or set {_VARIABLE}={TENSORFLOW},"
        return backend, f"the environment variable {_VARIABLE} says", remedy
    file = _config_file()
    try:
        backend = json.loads(file.read_text(encoding="utf-8"))["backend"]
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        backend = TENSORFLOW
    remedy = f"change it there, or set {_VARIABLE}={TENSORFLOW},"
    return str(backend), f'"backend" in {file} says', remedy


def _config_file() -> Path:
    home = os.path.expanduser("~")
    default = os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    folder = os.environ.get("KERAS_HOME", default)
    return Path(os.path.expanduser(os.path.join(folder, "keras.json")))


def _loaded() -> str | None:
    """The backend of the Keras that is imported; None: none is yet."""
    config = getattr(sys.modules.get("keras"), "config", None)
    return None if config is None else str(config.backend())
