"""The catalogues of models and parts, as the files ``catalogue.yaml`` beside the code have them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ut_tf.config.fields import option
from ut_tf.loading import read_yaml
from ut_tf.registry import Entry

Catalogue = Mapping[str, Entry]


def read_catalogues(module: str, package: str | None) -> Mapping[str, Catalogue]:
    """Reads the entries of each kind of names, by name.

    Args:
      module: the path of the module that the file ``catalogue.yaml`` stands beside.
      package: of that module, in which the file names targets and configurations.
    """
    read: Mapping[str, Catalogue] = {
        kind: {name: _entry(row, f"{package}.") for name, row in rows.items()}
        for kind, rows in read_yaml(Path(module).with_name("catalogue.yaml")).items()
    }
    return read


def _entry(row: Mapping[str, Any], package: str) -> Entry:
    attributes = dict(row.get("attributes", {}))
    if "options" in row:
        attributes["options"] = {name: option(**given) for name, given in row["options"].items()}
    return Entry(
        package + row["target"],
        row["description"],
        config=package + row["config"] if "config" in row else "",
        attributes=attributes,
        row=row.get("row", ""),
    )
