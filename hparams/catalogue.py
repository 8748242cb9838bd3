"""Every named hyperparameter set: those of the YAML files in this folder, and tensor2tensor's.

A set says what it is about, the problem that it was made for, the sets or groups of fields
(``_name``) that it is like, of which a later one counts before an earlier one, and the fields that
differ from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ut_tf.config.hparams import HParams
from ut_tf.hparams import tensor2tensor
from ut_tf.registry import Entry

_FOLDER = Path(__file__).parent
# In the order of listings.
_FILES = (
    *("shared", "sizes", "tasks/babi", "tasks/algorithmic", "tasks/length_generalization"),
    *("tasks/lte", "tasks/reasoning", "tasks/lambada", "tasks/agreement", "tasks/parsing"),
    *("tasks/own_files", "tasks/translation"),
)
_NO_FIELDS = ("about", "problem", "like")


def recipe(**values: Any) -> HParams:
    """The hyperparameters of a set.

    Args:
      values: its fields; "model" names the model, by default the Universal Transformer.
    """
    fields = dict(values)
    return HParams(fields.pop("model", "universal_transformer")).change(**fields)


def _ours() -> dict[str, Entry]:
    written: dict[str, dict[str, Any]] = {}
    groups: dict[str, str] = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in _FILES:
        of_file = yaml.load((_FOLDER / f"{file}.yaml").read_bytes(), loader)
        written |= of_file
        groups |= dict.fromkeys(of_file, file.rpartition("/")[2])
    return {
        name: Entry(
            "ut_tf.hparams.catalogue:recipe",
            values["about"],
            _fields(values, written),
            groups[name],
        )
        for name, values in written.items()
        if not name.startswith("_")
    }


def _fields(values: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a set, with those of the sets that it is like."""
    like = values.get("like", [])
    fields: dict[str, Any] = {}
    for parent in [like] if isinstance(like, str) else like:
        fields |= _fields(written[parent], written)
    return fields | {name: value for name, value in values.items() if name not in _NO_FIELDS}


def _tensor2tensor() -> dict[str, Entry]:
    module = "ut_tf.hparams.tensor2tensor"
    available = {
        name: Entry(f"{module}:variant", entry.description, {"size": entry.size, **entry.changes})
        for name, entry in tensor2tensor.SETS.items()
    }
    missing = {
        name: Entry(
            f"{module}:unavailable",
            f"not available yet: use {entry.nearest}",
            {"name": name, "missing": entry.missing, "nearest": entry.nearest},
        )
        for name, entry in tensor2tensor.UNAVAILABLE.items()
    }
    return available | missing


HPARAMS_SETS: Mapping[str, Entry] = _ours() | _tensor2tensor()
