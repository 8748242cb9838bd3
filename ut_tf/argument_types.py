"""Arguments of the library's functions, checked against their type hints: one sentence where a
value is of another type.

::

    @checked_types
    def train(run: Run, train_steps: int | None = None) -> TrainingResult: ...

    train("runs/babi")    # `run`=runs/babi: expected a Run, not str; Run.load reads one.
"""

import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ut_tf.errors import UserError

P = ParamSpec("P")
T = TypeVar("T")
_SHOWN = 80
# Numbers of numpy are numbers, too.
_KINDS: dict[Any, Any] = {int: numbers.Integral, float: numbers.Real}
_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    types.NoneType: "None",
}


def checked_types(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: raises UserError where an argument is not of the type of its hint."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value, hint in _arguments(function, args, kwargs):
            if not is_of(value, hint):
                raise UserError(_sentence(name, value, hint))
        return function(*args, **kwargs)

    return checked


def check_types(function: Callable[..., Any], values: Mapping[str, Any]) -> None:
    """Raises UserError where an argument of a function, by name in `values`, is not of the type of
    its hint.
    """
    for name, value, hint in _arguments(function, (), values):
        if not is_of(value, hint):
            raise UserError(_sentence(name, value, hint))


def is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of the type of a hint; of collections, what lists and tuples hold, too."""
    return any(_is_of_one(value, kind) for kind in alternatives(hint))


def _is_of_one(value: Any, kind: Any) -> bool:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if kind is types.NoneType:
        return value is None
    if origin is typing.Literal:
        return isinstance(value, tuple({type(choice) for choice in inside}))
    expected = _KINDS.get(origin or kind, origin or kind)
    if isinstance(expected, type) and not isinstance(value, expected):
        return False
    if len(inside) != 1:
        return True
    if isinstance(value, str | bytes):
        return False  # No collection of its letters.
    return not isinstance(value, list | tuple) or all(is_of(item, inside[0]) for item in value)


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the hint alone."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def _arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """Name, value and hint of each argument that a call gives and that has a hint."""
    hints = _hints(function)
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return []  # The call says what is missing.
    values = {**given, **given.get("options", {})}
    return [(name, value, hints[name]) for name, value in values.items() if name in hints]


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints by name; ``**options: Unpack[Options]`` stands for those of the TypedDict."""
    hints = typing.get_type_hints(function)
    options = hints.pop("options", None)
    if typing.get_origin(options) is typing.Unpack:
        hints.update(typing.get_type_hints(typing.get_args(options)[0]))
    return hints


def _sentence(name: str, value: Any, hint: Any) -> str:
    kinds = alternatives(hint)
    shown = value if isinstance(value, str) else repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ..."
    loads = [
        f"; {kind.__name__}.load reads one"
        for kind in kinds
        if isinstance(value, str | Path) and hasattr(kind, "load")
    ]
    expected = " or ".join(map(_described, kinds))
    return (
        f"`{name}`={shown}: expected {expected}, not {type(value).__name__}"
        f"{loads[0] if loads else ''}."
    )


def _described(kind: Any) -> str:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(map(str, inside))
    if len(inside) == 1:
        return f"a list, of which each is {' or '.join(map(_described, alternatives(inside[0])))}"
    named = origin or kind
    return _WORDS.get(named, f"a {getattr(named, '__name__', named)}")
