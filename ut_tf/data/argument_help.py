"""What the arguments of a problem are, read from its signature and its docstrings.

How it is used::

    for name, text in argument_help(registry.problems.get("babi_qa")).items():
        ...

How it works: an argument's text is its entry under "Args:" in the docstring of the problem's class,
of one that it extends, or of the TypedDict that names its options. Its default is what the name
is bound to, or that of the first ``__init__`` that gives one, from the class to those it extends.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from typing import Any

from ut_tf.data.arguments import as_written, described_type, is_writable, signature_of

# Each problem is given its registered name.
_LEFT_OUT = ("self", "name")
_EMPTY: tuple[Any, ...] = ("", (), [])
_ENTRY = re.compile(r"^(\w+(?:,\s+\w+)*)(?: \(.*\))?:\s+(.*(?:\n\s+.*)*)", re.MULTILINE)


def argument_help(factory: Callable[..., Any]) -> dict[str, str]:
    """What each argument is, by name: "the most digits; a whole number; default: 40".

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
    shown = f"default: {_lower(as_written(default))}" if writable else ""
    return "; ".join(part for part in (documented, "" if stated else expected, shown) if part)


def _expected(made_by: Any, parameter: inspect.Parameter) -> str:
    """What its type or, of files, its class says that it takes."""
    files = getattr(made_by, "file_arguments", {})
    if parameter.name in files:
        return "a file" if files[parameter.name] == "file" else "a file or several"
    return described_type(parameter.annotation) if is_writable(parameter.annotation) else ""


def _lower(value: str) -> str:
    """Truth values as a command line has them."""
    return value.lower() if value in ("True", "False") else value


def _sources(made_by: Any) -> Iterator[Any]:
    """What may document an argument, the last word last."""
    parents = list(reversed(inspect.getmro(made_by))) if inspect.isclass(made_by) else [made_by]
    for parent in parents:
        yield from _options(parent)
        yield parent


def _options(made_by: Any) -> Iterator[Any]:
    """The TypedDicts of its options, those that they extend first."""
    for parameter in _parameters(made_by).values():
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
    _, _, arguments = inspect.cleandoc(source.__doc__ or "").partition("Args:\n")
    section = textwrap.dedent(arguments.partition("\n\n")[0])
    return [
        (name, " ".join(match[2].split()).rstrip(".").replace("`", ""))
        for match in _ENTRY.finditer(section)
        if not match[2].startswith(("as for ", "as of "))  # What it refers to documents it.
        for name in re.split(r",\s+", match[1])
    ]


def _defaults(made_by: Any) -> dict[str, Any]:
    parents = reversed(inspect.getmro(made_by)) if inspect.isclass(made_by) else [made_by]
    return {
        name: parameter.default
        for parent in parents
        for name, parameter in _parameters(parent).items()
        if parameter.default is not parameter.empty
    }


def _parameters(made_by: Any) -> dict[str, inspect.Parameter]:
    """Its parameters with their types; none for what has no signature, such as ``object``."""
    for evaluated in (True, False):
        # An annotation may be any expression, of names that exist for type checkers alone.
        with contextlib.suppress(Exception):
            return dict(inspect.signature(made_by, eval_str=evaluated).parameters)
    return {}
