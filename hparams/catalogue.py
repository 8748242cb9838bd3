"""Every named hyperparameter set, from the YAML files in this folder.

A set says what it is about, the problem that it was made for, the sets or groups of fields
(``_name``) that it is like, of which a later one counts before an earlier one, and the fields that
differ from these.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.loading import read_yaml
from ut_tf.registry import Entry

_FOLDER = Path(__file__).parent
# In the order of listings.
_FILES = (
    *("shared", "sizes", "tasks/babi", "tasks/algorithmic", "tasks/length_generalization"),
    *("tasks/lte", "tasks/reasoning", "tasks/lambada", "tasks/agreement"),
    *("tasks/own_files", "tasks/translation"),
)
_TENSOR2TENSOR = "tensor2tensor"
_NO_FIELDS = ("about", "problem", "like")


def recipe(**values: Any) -> HParams:
    """The hyperparameters of a set.

    Args:
      values: its fields; "model" names the model, by default the Universal Transformer.
    """
    fields = dict(values)
    return HParams(fields.pop("model", "universal_transformer")).change(**fields)


def _sets(files: Iterable[str]) -> dict[str, Entry]:
    written: dict[str, dict[str, Any]] = {}
    groups: dict[str, str] = {}
    for file in files:
        of_file = read_yaml(_FOLDER / f"{file}.yaml")
        written |= of_file
        group = "" if file == _TENSOR2TENSOR else file.rpartition("/")[2]
        groups |= dict.fromkeys(of_file, group)
    return {
        name: _entry(name, values, written, groups[name])
        for name, values in written.items()
        if not name.startswith("_")
    }


def _entry(name: str, values: Mapping[str, Any], written: Mapping[str, Any], group: str) -> Entry:
    if "missing" in values:
        about = f"not available yet: use {values['nearest']}"
        return Entry(f"{__name__}:unavailable", about, {"name": name, **values}, group)
    return Entry(f"{__name__}:recipe", values["about"], _fields(values, written), group)


def _fields(values: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a set, with those of the sets that it is like."""
    like = values.get("like", [])
    fields: dict[str, Any] = {}
    for parent in [like] if isinstance(like, str) else like:
        fields |= _fields(written[parent], written)
    return fields | {name: value for name, value in values.items() if name not in _NO_FIELDS}


def unavailable(name: str, missing: str, nearest: str) -> NoReturn:
    """Raises the UserError about a set that needs what is not built, and the nearest one that is.

    Args:
      name: of the set.
      missing: what it needs.
      nearest: set to use instead.
    """
    raise UserError(
        f"hyperparameter set {name!r} needs {missing}, which is not available yet: the nearest set"
        f" is {nearest}."
    )


_THEIRS = _sets((_TENSOR2TENSOR,))
HPARAMS_SETS: Mapping[str, Entry] = _sets(_FILES) | _THEIRS
TENSOR2TENSOR = frozenset(_THEIRS)
"""Names of tensor2tensor's own sets."""
