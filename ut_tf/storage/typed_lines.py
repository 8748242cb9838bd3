"""Dataclasses in files of JSON, one a line, read and checked by the type hints of their fields.

::

    plain(Record(metrics={"loss": math.nan}, ...))              # {"metrics": {"loss": None}, ...}
    typed({"metrics": {"loss": None}, ...}, Record)             # Record(metrics={"loss": nan}, ...)
    read_typed(Path("evaluations.jsonl"), Record, "record of ut-eval")

A number that is not finite is null in the file, and nan where a float must be. Values that a file
lacks have their defaults.
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ut_tf.errors import UserError
from ut_tf.storage.files import MOST_LINES_BYTES, read_bounded
from ut_tf.storage.json_lines import finished_lines, read_object

T = TypeVar("T")
_SHOWN = 80


def plain(value: Any) -> Any:
    """A value ready for JSON: dataclasses as dictionaries, numbers that are not finite as None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_typed(path: Path, kind: type[T], what: str) -> list[T]:
    """The objects of a file, one a line; none where it is not there. A last line that is cut short
    is left out with a warning.

    Args:
      path: of the file.
      kind: a dataclass.
      what: a line is, for messages.

    Raises:
      UserError: the file cannot be read, or a line is no such object; names file and line.
    """
    try:
        content = read_bounded(path, MOST_LINES_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror or error}; change its permissions."
        ) from error
    found = []
    for number, line in enumerate(finished_lines(content, path), 1):
        try:
            values = read_object(line)
            if values is None:
                raise ValueError("no JSON object, or damaged")
            found.append(typed(values, kind))
        except ValueError as error:
            raise UserError(f"{path}:{number} is no {what} ({error}): remove that line.") from error
    return found


def typed(value: Any, kind: Any) -> Any:
    """`value`, as JSON holds it, as the type of a hint; names that a dataclass does not have are
    left out, those that a TypedDict does not have stay.

    Raises:
      ValueError: the type cannot hold the value.
    """
    origin, inside = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _first(value, inside)
    if kind is Any or (origin is typing.Literal and value in inside):
        return value
    if kind is float and value is None:
        return math.nan
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields"):
        return _of_fields(value, kind)
    if origin is tuple and isinstance(value, list):
        kinds = (inside[0],) * len(value) if inside[1:] == (...,) else inside
        if len(value) != len(kinds):
            raise _wrong(value)
        return tuple(map(typed, value, kinds))
    if origin is list and isinstance(value, list):
        return [typed(part, inside[0]) for part in value]
    if origin is dict and isinstance(value, dict):
        return {name: typed(part, inside[1]) for name, part in value.items()}
    if kind is float and type(value) is int:
        return _number(value)
    if type(value) is not kind:
        raise _wrong(value)
    return value


def _first(value: Any, kinds: tuple[Any, ...]) -> Any:
    """The value as the first of some types that can hold it; null as None, if that is one."""
    if value is None and types.NoneType in kinds:
        return None
    for kind in kinds[:-1]:
        try:
            return typed(value, kind)
        except ValueError:
            continue
    return typed(value, kinds[-1])


def _of_fields(value: Any, kind: Any) -> Any:
    """An object as a dataclass or a TypedDict, a list as a NamedTuple."""
    hints = typing.get_type_hints(kind)
    if isinstance(value, list) and hasattr(kind, "_fields") and len(value) == len(hints):
        value = dict(zip(hints, value, strict=True))
    if not isinstance(value, dict):
        raise _wrong(value)
    if missing := sorted(_required(kind) - value.keys()):
        raise ValueError(f"lacks {', '.join(missing)}")
    read = {}
    for name in hints.keys() & value.keys():
        try:
            read[name] = typed(value[name], hints[name])
        except ValueError as error:
            raise ValueError(f"{name} {error}") from None
    return {**value, **read} if typing.is_typeddict(kind) else kind(**read)


def _required(kind: Any) -> set[str]:
    """The fields that an object must have."""
    if not dataclasses.is_dataclass(kind):
        return {*getattr(kind, "__required_keys__", typing.get_type_hints(kind))}
    return {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is field.default_factory is dataclasses.MISSING
    }


def _number(value: int) -> int:
    """A whole number in the place of a float, as it is: what is written again has the same text."""
    try:
        float(value)
    except OverflowError:
        raise _wrong(value) from None
    return value


def _wrong(value: Any) -> ValueError:
    text = json.dumps(value)
    return ValueError(f"cannot be {text if len(text) <= _SHOWN else f'{text[:_SHOWN]} ...'}")
