"""Modules that are imported when what they offer is first used: they load TensorFlow and Keras."""

import importlib
from types import ModuleType

from ut_tf.keras_backend import check_backend
from ut_tf.start_lines import without_start_lines


def load_module(name: str) -> ModuleType:
    """Imports a module, without what TensorFlow says when it starts.

    Raises:
      UserError: Keras has another backend than TensorFlow.
    """
    check_backend()
    with without_start_lines():
        return importlib.import_module(name)
