"""Layouts of tables in YAML: ``tables.yaml`` beside kept records, and the paper's tables.

::

    tables = read_tables(Path("results"))
    tables["lengths"].figures[0].metrics       # ("length_400/char_acc", "length_400/seq_acc")
    paper_tables().tables[0].title             # "bAbI: mean error in % (failed tasks of 20)"

::

    lengths:
      lines: [task, set]                       # what tells the lines apart
      task: algorithmic_(\\w+)_decimal40        # the task in the name of a problem
      facts: [parameters, updates, minutes]
      figures:
      - {title: "400", metrics: [length_400/char_acc, length_400/seq_acc], digits: 3,
         paper: {copy: 0.91 / 0.35}}
      - {each: 1..20, metrics: "error/{each}"}  # twenty columns

The names are those of the dataclasses in ``ut_tf.tables.layout``.
"""

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError, did_you_mean
from ut_tf.storage.yaml_text import unique_yaml
from ut_tf.tables.layout import FACTS, LINE_FIELDS, Column, Publication, Table

TABLES_FILE = "tables.yaml"
PUBLICATIONS = ("paper", "chomsky")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
# A text may stand unquoted in a file, though YAML takes it for a number.
_ACCEPTED: dict[Any, tuple[type, ...]] = {str: (str, int, float), float: (int, float)}
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_OF_PUBLICATIONS = {Table: ("name", "title", "published", "unit"), Column: ("sources",)}


def read_tables(folder: Path) -> dict[str, Table]:
    """The tables that ``tables.yaml`` in a folder lays out, by name; none where it is missing.

    Raises:
      UserError: the file is no YAML, lays a table out twice, or lays out what is not known.
    """
    path = folder / TABLES_FILE
    try:
        values = _read_yaml(path)
    except FileNotFoundError:
        return {}
    tables = {}
    for name, layout in values.items():
        place = f"{path}, {name}"
        table = _read(Table, layout, place, _OF_PUBLICATIONS, {"name": str(name)})
        for option, given, allowed in (
            ("lines", table.lines, LINE_FIELDS),
            ("facts", table.facts, FACTS),
        ):
            for value in given:
                if value not in allowed:
                    raise UserError(
                        f"{place}: {option} cannot have {value!r}{did_you_mean(value, allowed)}"
                        f" Expected some of {', '.join(allowed)}."
                    )
        tables[str(name)] = table
    return tables


def layout_of(tables: Mapping[str, Table], records: str) -> Table:
    """The layout by which a run is recorded: that of the records' table, with the figures of all
    tables that show them.
    """
    showing = [table for table in tables.values() if table.source == records]
    own = tables.get(records, showing[0] if showing else Table(records))
    figures = tuple(figure for table in showing for figure in table.figures)
    groups = [table.group for table in showing if table.group]
    return dataclasses.replace(
        own, name=records, records="", figures=figures, group=groups[0] if groups else ""
    )


@functools.cache
def paper_tables(name: str = "paper") -> Publication:
    """The tables of "Universal Transformers" (arXiv 1807.03819v3), as printed, and the problems
    whose figures belong in their columns; or those of "chomsky" (arXiv 2207.02098).
    """
    path = Path(__file__).parent / f"{name}.yaml"
    publication: Publication = _read(Publication, _read_yaml(path), str(path))
    return publication


def _read_yaml(path: Path) -> dict[Any, Any]:
    """The mapping in a file.

    Raises:
      FileNotFoundError: it is missing.
      UserError: it is no YAML, no mapping, or has a name twice.
    """
    import yaml

    try:
        values = unique_yaml(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read ({error}).") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no names of tables with their layouts.")
    return values


_Hidden = Mapping[type, tuple[str, ...]]


def _read(
    kind: type, layout: Any, place: str, hidden: _Hidden | None = None, given: Any = None
) -> Any:
    """A dataclass of a mapping, by the type hints of its fields.

    Args:
      kind: the dataclass.
      layout: the mapping.
      place: file and names, for messages.
      hidden: fields of dataclasses that the file cannot set.
      given: values of such fields.

    Raises:
      UserError: a name is unknown or missing, or a value of another type.
    """
    if not isinstance(layout, dict):
        raise UserError(f"{place} is {layout!r}: expected names with values.")
    hidden = hidden or {}
    fields = {item.name: item for item in dataclasses.fields(kind)}
    known = [name for name in fields if name not in hidden.get(kind, ())]
    for name in layout:
        if name not in known:
            raise UserError(
                f"{place}: unknown {name!r}{did_you_mean(str(name), known)} Expected some of"
                f" {', '.join(known)}."
            )
    hints = typing.get_type_hints(kind)
    values = {**(given or {})}
    for name, value in layout.items():
        values[name] = _value(hints[name], value, f"{place}, {name}", hidden)
    if kind is Column and values.get("metrics"):
        values.setdefault("title", values["metrics"][0])
    for name, item in fields.items():
        if item.default is item.default_factory is dataclasses.MISSING and name not in values:
            raise UserError(f"{place} has no {name!r}: name it.")
    return kind(**values)


def _value(hint: Any, value: Any, place: str, hidden: _Hidden) -> Any:
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return None if value is None else _value(options[0], value, place, hidden)
    if origin is tuple:
        parts = value if isinstance(value, list) else [value]
        if options[0] is Column:
            parts = [column for part in parts for column in _columns(part, place)]
        if options[0] is str:
            parts = [name for part in parts for name in _names(part)]
        return tuple(_value(options[0], part, place, hidden) for part in parts)
    if origin is not None:
        if not isinstance(value, dict):
            raise UserError(f"{place} is {value!r}: expected names with values.")
        return {str(name): _value(options[1], one, place, hidden) for name, one in value.items()}
    if dataclasses.is_dataclass(hint):
        return _read(typing.cast(type, hint), value, place, hidden)
    if not isinstance(value, _ACCEPTED.get(hint, (hint,))) or (
        isinstance(value, bool) and hint is not bool
    ):
        raise UserError(f"{place} is {value!r}: expected {_WORDS[hint]}.")
    return hint(value)


def _names(text: Any) -> list[Any]:
    """The texts that one with a range such as "task{1..20}" stands for."""
    if not isinstance(text, str) or not (match := re.search(r"\{(\d+\.\.\d+)\}", text)):
        return [text]
    return [text[: match.start()] + value + text[match.end() :] for value in _range(match[1])]


def _range(text: str) -> list[str]:
    first, last = map(int, text.split(".."))
    return [str(number) for number in range(first, last + 1)]


def _columns(layout: Any, place: str) -> list[Any]:
    """The columns that one with `each` stands for: a list, a range or titles with values, which
    take the place of "{each}" in its texts.
    """
    if not isinstance(layout, dict) or "each" not in layout:
        return [layout]
    each = layout["each"]
    if isinstance(each, str) and _RANGE.fullmatch(each):
        each = _range(each)
    if isinstance(each, list):
        each = {str(value): str(value) for value in each}
    if not isinstance(each, dict):
        raise UserError(f"{place}: each is {each!r}: expected a list, or a range such as 1..20.")
    rest = {name: value for name, value in layout.items() if name != "each"}
    return [{"title": title, **_with_each(rest, str(value))} for title, value in each.items()]


def _with_each(value: Any, each: str) -> Any:
    if isinstance(value, dict):
        return {name: _with_each(one, each) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_each(one, each) for one in value]
    return value.replace("{each}", each) if isinstance(value, str) else value
