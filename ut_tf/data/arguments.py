"""Arguments of problems: checked against the factory's signature before it is called, and files as
absolute paths.

Types that can be written on a command line are checked (numbers, texts, true and false, choices,
lists of these); any other annotation, or none, accepts everything. ``**options: Unpack[Options]``
stands for the arguments that the TypedDict names.
"""

import contextlib
import functools
import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ut_tf import registry
from ut_tf.argument_types import alternatives
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError, check_arguments, did_you_mean
from ut_tf.paths import expanded

_DATA_FIELDS = ("vocab_size", "subword_model", "subword_dropout")
# Beyond it TensorFlow's int32 sizes overflow.
_LARGEST_COUNT = 1_000_000_000
# Commas in the name of a file, less one.
_MOST_PARTS = 9
_NAMED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    types.NoneType: "null",
}


def convert_arguments(
    problem: str, factory: Callable[..., Any], arguments: dict[str, Any]
) -> dict[str, Any]:
    """The arguments as the factory takes them: a list becomes a tuple where the annotation says so.

    Args:
      problem: the problem's name, for messages.
      factory: what is to be called.
      arguments: by name.

    Raises:
      UserError: names the argument that the factory does not have, or whose value is of another
        type than its annotation.
    """
    parameters = signature_of(factory).parameters
    # The name that the registry gives a problem is no choice of the user's.
    given = {"name"} & factory.keywords.keys() if isinstance(factory, functools.partial) else set()
    known = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name not in given
    ]
    accepts_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if not accepts_any:
        check_arguments(f"problem {problem!r}", arguments, known)
    return {
        name: _checked(problem, name, value, parameters[name]) if name in known else value
        for name, value in arguments.items()
    }


def check_argument_names(problem: str, arguments: Mapping[str, Any]) -> None:
    """Raises UserError where a built-in problem has no argument of such a name; imports nothing
    behind the problem's name. ``convert_arguments`` checks the values, and a user's problem.
    """
    if (known := registry.problems.argument_names(problem)) is not None:
        check_arguments(f"problem {problem!r}", arguments, known)


def absolute_files(problem: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with absolute paths for those that the problem declares as files
    (``Problem.file_arguments``), since a run is used from other folders too.

    Args:
      problem: the problem's registered name; nothing behind it is imported.
      arguments: by name; several files are a list, or a text with commas between.
    """
    declared = registry.problems.file_arguments(problem)
    return {
        name: _absolute(declared[name], value) if name in declared else value
        for name, value in arguments.items()
    }


def file_paths(names: Sequence[str] | str) -> tuple[Path, ...]:
    """The absolute paths of "a,b", or of several names, which may have commas in them. A file that
    is there counts before a comma that divides.
    """
    divided = file_names(names) if isinstance(names, str) else names
    return tuple(Path(_absolute_path(name)) for name in divided if name.strip())


def file_names(text: str) -> list[str]:
    """The names in "a,b", divided as of ``file_paths``."""
    parts, names = text.split(","), []
    while parts:
        count = next((n for n in range(_MOST_PARTS, 1, -1) if _is_there(parts[:n])), 1)
        if name := ",".join(parts[:count]).strip():
            names.append(name)
        parts = parts[count:]
    return names


def _is_there(parts: Sequence[str]) -> bool:
    return os.path.isfile(expanded(",".join(parts).strip()))


def _absolute(kind: str, value: Any) -> Any:
    """The value of an argument for one "file" as a text, of one for "files" as a list; a value of
    another type as it is, for ``convert_arguments`` to refuse.
    """
    if kind == "file":
        return _absolute_path(value) if isinstance(value, str) and value else value
    is_list = isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)
    return list(map(str, file_paths(value))) if isinstance(value, str) or is_list else value


def _absolute_path(path: str) -> str:
    return os.path.abspath(expanded(path))


def hyperparameter_arguments(
    problem: str, factory: Callable[..., Any], training: TrainingConfig
) -> dict[str, Any]:
    """The hyperparameters of the data that differ from their defaults, as arguments of the factory.

    Raises:
      UserError: one of them is set and the factory takes no argument of that name.
    """
    default, parameters = TrainingConfig(), signature_of(factory).parameters
    values = {
        name: getattr(training, name)
        for name in _DATA_FIELDS
        if getattr(training, name) != getattr(default, name)
    }
    for name, value in values.items():
        if name not in parameters:
            raise UserError(
                f"`{name}`={value}: problem {problem!r} takes no `{name}`;"
                f" set `{name}`={getattr(default, name)}."
            )
    return values


@contextlib.contextmanager
def name_problem_args(names: Collection[str]) -> Iterator[None]:
    """Marks arguments of a problem in the UserErrors of the ``with`` statement's body:
    "`seed`=-1" becomes "`problem_args.seed`=-1".

    A run has a seed of its own, and training a vocab_size: a command could not tell which is meant.

    Args:
      names: of the problem's arguments.
    """
    try:
        yield
    except UserError as error:
        sentence = re.sub(
            r"`(\w+)`",
            lambda match: f"`problem_args.{match[1]}`" if match[1] in names else match[0],
            str(error),
        )
        raise UserError(sentence) from error.__cause__


def parameters_of(factory: Callable[..., Any]) -> frozenset[str]:
    """The names of the parameters of what makes a problem."""
    return frozenset(signature_of(factory).parameters)


def signature_of(factory: Callable[..., Any]) -> inspect.Signature:
    """The factory's signature, with the arguments of its TypedDict each on its own."""
    signature = plain_signature(factory)
    parameters = [each for one in signature.parameters.values() for each in _unpacked(one)]
    return signature.replace(parameters=parameters)


def plain_signature(factory: Callable[..., Any]) -> inspect.Signature:
    """The factory's signature; annotations that cannot be evaluated are texts."""
    try:
        return inspect.signature(factory, eval_str=True)
    except Exception:
        # An annotation may be any expression, of names that exist for type checkers alone.
        return inspect.signature(factory)


def _unpacked(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The parameter, or in the place of ``**options: Unpack[Options]`` those of the TypedDict."""
    if typing.get_origin(parameter.annotation) is not typing.Unpack:
        return [parameter]
    (options,) = typing.get_args(parameter.annotation)
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        for name, annotation in typing.get_type_hints(options).items()
    ]


def _checked(problem: str, name: str, value: Any, parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    if not _fits(annotation, value):
        default = parameter.default
        example = ""
        if default not in (parameter.empty, "", None):
            example = f", such as its default {as_written(default)}"
        choices = [
            str(choice)
            for kind in alternatives(annotation)
            if typing.get_origin(kind) is typing.Literal
            for choice in typing.get_args(kind)
        ]
        near = did_you_mean(as_written(value), choices)
        raise UserError(
            f"`{name}`={as_written(value)} of problem {problem!r}"
            f"{f'{near} Expected' if near else ': expected'} {describe_type(annotation)}{example}."
        )
    wants_tuple = any(
        typing.get_origin(kind) is tuple or kind is tuple for kind in alternatives(annotation)
    )
    return tuple(value) if isinstance(value, list) and wants_tuple else value


def _fits(annotation: Any, value: Any) -> bool:
    return any(_fits_one(kind, value) for kind in alternatives(annotation))


def _fits_one(annotation: Any, value: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return value in typing.get_args(annotation)
    if origin in (tuple, list):
        items = [kind for kind in typing.get_args(annotation) if kind is not Ellipsis]
        return isinstance(value, tuple | list) and (
            len(items) != 1 or all(_fits(items[0], item) for item in value)
        )
    if annotation is None:
        return value is None
    if annotation not in _NAMED:
        return True
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, annotation) and (annotation is bool or not isinstance(value, bool))


def is_writable(annotation: Any) -> bool:
    """Whether all values of a type can be written on a command line, and are checked."""
    return all(
        kind in _NAMED
        or kind is None
        or typing.get_origin(kind) in (typing.Literal, tuple, list, Sequence)
        for kind in alternatives(annotation)
    )


def describe_type(annotation: Any) -> str:
    """The values that an argument of that type expects, such as "a whole number" or "1k or 10k"."""
    return " or ".join(map(_described_one, alternatives(annotation)))


def _described_one(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(map(str, typing.get_args(annotation)))
    if typing.get_origin(annotation) in (tuple, list, Sequence):
        return "several with + between, such as 1+2+3"
    return _NAMED.get(annotation, str(annotation))


def as_written(value: Any) -> str:
    """The value of an argument as a command line has it: (1, 2) is "1+2"."""
    if isinstance(value, bool):
        return str(value).lower()
    return "+".join(map(str, value)) if isinstance(value, tuple | list) and value else str(value)


def as_assignments(values: str | Mapping[str, Any]) -> str:
    """Values by name as a command line has them, "name=value,name=value"; a text stays as it is."""
    if isinstance(values, str):
        return values
    return ",".join(f"{name}={as_written(value)}" for name, value in values.items())


def at_least(least: int, name: str, value: int) -> int:
    """The value of an argument that counts something.

    Raises:
      UserError: it is below `least`, or too large for TensorFlow's sizes.
    """
    if value < least:
        raise UserError(f"`{name}`={value}: expected at least {least}.")
    if value > _LARGEST_COUNT:
        raise UserError(f"`{name}`={value}: expected at most {_LARGEST_COUNT}.")
    return value
