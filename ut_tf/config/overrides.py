"""Overrides of typed fields in one line of text, "name=value,name=value": what is set, and whether
the field can hold it.

::

    values, mistakes = parse_assignments("beam_size=4,alpha=0.6")  # {"beam_size": "4", ...}, []
    coerce("4", int, parse=True)                                   # 4
    coerce("1+2", tuple[int, ...], parse=True)                     # (1, 2)

Mistakes are collected, not raised, so that a user hears of all of them at once.
"""

import math
import re
import types
import typing
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Literal

SUPPORTED = (
    "bool, int, float, str, a Literal of them, a tuple of these (tuple[int, ...]), or one of all"
    " these or None"
)
"""The types that ``coerce`` knows, in words."""
# The largest of TensorFlow's whole numbers: train_steps=10000000000 stands for training for ever.
_LARGEST = 2**63 - 1


def parse_assignments(text: str) -> tuple[dict[str, Any], list[str]]:
    """The values that "name=value,name=value" sets, as texts by name, and a sentence for each part
    that is no assignment or comes twice.
    """
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            mistakes.append(f"{part!r} is not an assignment: expected name=value")
        elif name.strip() in values:
            mistakes.append(f"{name.strip()!r} is set twice")
        else:
            values[name.strip()] = value.strip()
    return values, mistakes


def is_supported(annotation: Any) -> bool:
    """Whether ``coerce`` knows a type."""
    if _is_union(annotation):
        inner = _without_none(annotation)
        return len(inner) == 1 and not _is_union(inner[0]) and is_supported(inner[0])
    if typing.get_origin(annotation) is tuple:
        kinds = _element_kinds(annotation, 1)
        return bool(kinds) and all(_is_scalar(kind) for kind in kinds)
    return _is_scalar(annotation)


def coerce(value: Any, annotation: Any, parse: bool) -> Any:
    """`value` as the annotated type.

    Args:
      value: a value, or with `parse` a text that stands for one; of a tuple "1+2+3".
      annotation: one of the types in SUPPORTED.
      parse: whether texts are read.

    Raises:
      ValueError: the type cannot hold the value; says what was expected.
    """
    if not is_supported(annotation):
        raise ValueError(f"a field of another type than {described(annotation)}: {SUPPORTED}")
    if _is_union(annotation):
        if value is None or (parse and value == "None"):
            return None
        return coerce(value, _without_none(annotation)[0], parse)
    if typing.get_origin(annotation) is tuple:
        return _coerce_tuple(value, annotation, parse)
    if typing.get_origin(annotation) is Literal:
        return chosen(value, typing.get_args(annotation), parse)
    if annotation is str:
        if not isinstance(value, str):
            raise ValueError("a text")
        return value
    if annotation is bool:
        return _coerce_bool(value, parse)
    return _coerce_number(value, annotation, parse)


def chosen(value: Any, options: Sequence[Any], parse: bool) -> Any:
    """The option that `value` is or, with `parse`, that it is the text of.

    Raises:
      ValueError: there is none; lists them.
    """
    if parse:
        value = next((option for option in options if str(option) == value), value)
    if value not in options:
        raise ValueError(f"one of {', '.join(map(str, options))}")
    return value


def described(annotation: Any) -> str:
    """A type as it is written."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (types.UnionType, typing.Union)


def _without_none(annotation: Any) -> list[Any]:
    return [option for option in typing.get_args(annotation) if option is not types.NoneType]


def _is_scalar(annotation: Any) -> bool:
    return annotation in (bool, int, float, str) or typing.get_origin(annotation) is Literal


def _element_kinds(annotation: Any, count: int) -> tuple[Any, ...]:
    """The types of a tuple's elements, of which there are `count` where the type leaves it open."""
    kinds = typing.get_args(annotation)
    return (kinds[0],) * count if len(kinds) == 2 and kinds[1] is Ellipsis else kinds


def _coerce_tuple(value: Any, annotation: Any, parse: bool) -> tuple[Any, ...]:
    if isinstance(value, str) and parse:
        # The sign in 1e+5 stands between no two elements.
        between = r"(?<![0-9.][eE])\+" if float in typing.get_args(annotation) else r"\+"
        value = [part.strip() for part in re.split(between, value)] if value else []
    if not isinstance(value, list | tuple):
        raise ValueError("several values")
    kinds = _element_kinds(annotation, len(value))
    if len(kinds) != len(value):
        raise ValueError(f"{len(kinds)} values, with + between them")
    try:
        return tuple(coerce(part, kind, parse) for part, kind in zip(value, kinds, strict=True))
    except ValueError as error:
        raise ValueError(f"several values with + between them, each {error}") from None


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
    if isinstance(value, str):
        raise ValueError(f"{expected}, not a text")
    if isinstance(value, bool) or not isinstance(value, Integral if kind is int else Real):
        raise ValueError(expected)
    try:
        number = kind(value) if math.isfinite(value) else None
    except OverflowError:
        number = None
    if number is None and kind is float:
        raise ValueError(expected)
    if number is None or (kind is int and abs(number) > _LARGEST):
        bound = f"at least -{_LARGEST}" if value < 0 else f"at most {_LARGEST}"
        raise ValueError(f"{expected} of {bound}")
    return number
