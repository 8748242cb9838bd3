"""Help on the arguments of a problem, read from its signature and its docstrings.

How it is used::

    for name, text in argument_help(registry.problems.get("babi_qa")).items():
        ...

How it works: an argument's text is its entry under "Args:" in the docstring of the problem's class,
of one that it extends, or of the TypedDict that names its options. Its default is what the name
is bound to, that of the first ``__init__`` that gives one, from the class to those it extends, or
that in the class's ``argument_defaults``.
"""

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

from docstring_parser import google

from ut_tf.data.arguments import (
    as_written,
    describe_type,
    is_writable,
    plain_signature,
    signature_of,
)

# Each problem is given its registered name.
_LEFT_OUT = ("self", "name")
_EMPTY: tuple[Any, ...] = ("", (), [])


def argument_help(factory: Callable[..., Any]) -> dict[str, str]:
    """The help on each argument, by name: "the most digits; a whole number; default: 40".

    Args:
      factory: what makes a problem; its class, or a partial of it.
    """
    bound = factory.keywords if isinstance(factory, functools.partial) else {}
    made_by = factory.func if isinstance(factory, functools.partial) else factory
    documented = {name: text for source in _sources(made_by) for name, text in _entries(source)}
    defaults = {**_defaults(made_by), **bound}
    return {
        name: _text(documented.get(name, ""), _expected(made_by, parameter), defaults.get(name))
        for name, parameter in signature_of(made_by).parameters.items()
        if name not in _LEFT_OUT and parameter.kind is not parameter.VAR_KEYWORD
    }


def _text(documented: str, expected: str, default: Any) -> str:
    # Texts often name the choices, in quotes.
    stated = expected and all(f'"{part}"' in documented for part in expected.split(" or "))
    writable = (
        isinstance(default, bool | int | float | str | tuple | list) and default not in _EMPTY
    )
    shown = f"default: {as_written(default)}" if writable else ""
    return "; ".join(part for part in (documented, "" if stated else expected, shown) if part)


def _expected(made_by: Any, parameter: inspect.Parameter) -> str:
    """The values that its type or, of files, its class accepts."""
    files = getattr(made_by, "file_arguments", {})
    if parameter.name in files:
        return "a file" if files[parameter.name] == "file" else "a file or several"
    return describe_type(parameter.annotation) if is_writable(parameter.annotation) else ""


def _sources(made_by: Any) -> Iterator[Any]:
    """The objects that may document an argument; a later one counts before an earlier one."""
    for parent in _parents(made_by):
        yield from _options(parent)
        yield parent


def _options(made_by: Any) -> Iterator[Any]:
    """The TypedDicts of its options, those that they extend first."""
    for parameter in plain_signature(made_by).parameters.values():
        if typing.get_origin(parameter.annotation) is typing.Unpack:
            (options,) = typing.get_args(parameter.annotation)
            yield from _extended(options)
            yield options


def _extended(options: Any) -> list[Any]:
    # A TypedDict does not know what it extends: others of its module with some of its keys count.
    names = typing.get_type_hints(options).keys()
    return [
        other
        for other in vars(sys.modules[options.__module__]).values()
        if typing.is_typeddict(other) and typing.get_type_hints(other).keys() < names
    ]


def _entries(source: Any) -> list[tuple[str, str]]:
    """The arguments in a docstring, each with its text on one line."""
    return [
        (name, " ".join(text.split()).rstrip(".").replace("`", ""))
        for entry in google.parse(source.__doc__ or "").params
        if (text := entry.description or "")
        and not text.startswith(("as for ", "as of "))  # What it refers to documents it.
        for name in re.split(r",\s+", entry.arg_name)
    ]


def _defaults(made_by: Any) -> dict[str, Any]:
    named = {
        name: parameter.default
        for parent in _parents(made_by)
        for name, parameter in plain_signature(parent).parameters.items()
        if parameter.default is not parameter.empty
    }
    return {**getattr(made_by, "argument_defaults", {}), **named}


def _parents(made_by: Any) -> list[Any]:
    """The classes that it extends and itself, the last, if they have an ``__init__``."""
    if not inspect.isclass(made_by):
        return [made_by]
    written = [each for each in inspect.getmro(made_by) if "__init__" in vars(each)]
    return [each for each in reversed(written) if each is not object]
