"""Overrides of typed fields in one line of text, "name=value,name=value": what is set, and whether
the field can hold it.

How it is used::

    # {"beam_size": "4", "alpha": "0.6"}, []
    values, mistakes = parse_assignments("beam_size=4,alpha=0.6")
    coerce("4", int, parse=True)                                      # 4

Mistakes are collected, not raised, so that a user hears of all of them at once.
"""

from __future__ import annotations

import math
import types
import typing
from numbers import Integral, Real
from typing import Any, Literal


def parse_assignments(text: str) -> tuple[dict[str, Any], list[str]]:
    """Returns what "name=value,name=value" sets, as texts by name, and one sentence for each part
    that is no assignment or comes twice.
    """
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            mistakes.append(f"{part!r} is no assignment: expected name=value")
        elif name.strip() in values:
            mistakes.append(f"{name.strip()!r} is set twice")
        else:
            values[name.strip()] = value.strip()
    return values, mistakes


def coerce(value: Any, annotation: Any, parse: bool) -> Any:
    """Returns `value` as the annotated type.

    Args:
      value: a value, or with `parse` a text that stands for one.
      annotation: bool, int, float, a Literal of texts, or one of these or None.
      parse: whether texts are read.

    Raises:
      ValueError: the type cannot hold the value; says what was expected.
    """
    options = typing.get_args(annotation)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        if value is None or (parse and value == "None"):
            return None
        inner = next(option for option in options if option is not type(None))
        return coerce(value, inner, parse)
    if typing.get_origin(annotation) is Literal:
        if value not in options:
            raise ValueError(f"one of {', '.join(options)}")
        return value
    if annotation is bool:
        return _coerce_bool(value, parse)
    return _coerce_number(value, annotation, parse)


def _coerce_bool(value: Any, parse: bool) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "false": False, "0": False}
    if parse and str(value).lower() in words:
        return words[str(value).lower()]
    raise ValueError("true or false")


def _coerce_number(value: Any, kind: type, parse: bool) -> Any:
    expected = "a whole number" if kind is int else "a finite number"
    if isinstance(value, str) and parse:
        try:
            value = kind(value)
        except ValueError:
            raise ValueError(expected) from None
    if (
        isinstance(value, bool)
        or not isinstance(value, Integral if kind is int else Real)
        or not math.isfinite(value)
    ):
        raise ValueError(expected)
    return kind(value)
