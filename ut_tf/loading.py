"""Modules that are imported when what they offer is first used, since they load TensorFlow and
Keras; and data that stands beside the code.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

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


def read_yaml(path: Path) -> Any:
    """Returns the content of a YAML file that comes with ut-tf."""
    return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def place(value: Any) -> str:
    """The file and the name of a class or function, for messages."""
    code = getattr(value, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    # Such as a functools.partial of the class.
    named = value if hasattr(value, "__qualname__") else getattr(value, "func", type(value))
    source = getattr(sys.modules.get(named.__module__), "__file__", named.__module__)
    return f"{source}:{named.__qualname__}"
