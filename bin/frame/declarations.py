"""Names, help pages and flags of the commands, from the files in flags/.

``flags/<module>.yaml`` lists a command's flags in the order of its help page: each is the name of
one in ``flags/shared.yaml``, or the fields of a ``Flag``, where `like` names a shared one that the
others are as of.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ut_tf.bin.frame.flags import Flag
from ut_tf.loading import read_yaml

_FOLDER = Path(__file__).resolve().parents[1] / "flags"


class Declaration(NamedTuple):
    """What is declared of a command.

    Fields:
      command: its name.
      description: the text at the head of its help page.
      flags: in the order of the help page.
    """

    command: str
    description: str
    flags: tuple[Flag, ...]


def declaration(module: str) -> Declaration:
    """Reads what is declared of the command in the module ut_tf.bin.`module`."""
    read = read_yaml(_FOLDER / f"{module}.yaml")
    return Declaration(read["command"], read["description"], tuple(map(_flag, read["flags"])))


def shared(*names: str) -> tuple[Flag, ...]:
    """Returns flags that several commands have, by their names in ``flags/shared.yaml``."""
    return tuple(map(_flag, names))


def _flag(row: str | Mapping[str, Any]) -> Flag:
    fields = _fields(row)
    return Flag(**{**fields, "aliases": tuple(fields.get("aliases", ()))})


def _fields(row: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(row, str):
        return {"name": row, **_fields(_shared()[row])}
    own = {name: value for name, value in row.items() if name != "like"}
    return {**_fields(row["like"]), **own} if "like" in row else own


@functools.cache
def _shared() -> Mapping[str, Mapping[str, Any]]:
    read: Mapping[str, Mapping[str, Any]] = read_yaml(_FOLDER / "shared.yaml")
    return read
