"""How a hyperparameter declares, at its field, what it may be and when it is read.

::

    @dataclass(frozen=True, kw_only=True)
    class DropoutConfig(Config):
        dropout: float = option(0.1, at_least=0, below=1)
        lstm_forget_bias: float = option(1.0, only_with=having("recurrence", "lstm"))

A ``Literal`` lists its choices; a ``str`` with ``names_of`` has those of a registry.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ut_tf import registry
from ut_tf.config.overrides import SUPPORTED, chosen, coerce, described, is_supported
from ut_tf.errors import UserError, near_names

PART_OPTIONS = "part_options"
"""The field with the options of the parts that other fields choose (``part_options.py``)."""
_DECLARATION = "declaration"


@dataclass(frozen=True)
class Condition:
    """That another field has one of some values, or none of them.

    Args:
      field: name of the other field.
      values: the values meant.
      excluded: whether the field must have another value than these.
    """

    field: str
    values: tuple[Any, ...]
    excluded: bool = False

    def holds(self, config: Any) -> bool:
        """Whether `config` fulfils the condition."""
        return (getattr(config, self.field) in self.values) != self.excluded


def having(field: str, *values: Any) -> Condition:
    """The condition that `field` has one of `values`."""
    return Condition(field, values)


def unless(field: str, *values: Any) -> Condition:
    """The condition that `field` has none of `values`."""
    return Condition(field, values, excluded=True)


@dataclass(frozen=True)
class Declaration:
    """The arguments of ``option`` besides the default; see there."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    must_be: tuple[str, Callable[[Any], bool]] | None = None
    names_of: str | None = None
    besides: tuple[str, ...] = ()
    only_with: Condition | None = None
    in_use: bool = False
    is_detail: bool = False
    is_structure: bool = False
    asks_nothing: tuple[Any, ...] = ()
    absent: Any = None
    formerly: Any = None
    text: str = ""
    kind: Any = None

    def expectation(self, value: Any) -> str | None:
        """The bounds in words, "at least 1", where `value` breaks one; otherwise None."""
        limits = (
            ("at least", self.at_least, operator.ge),
            ("above", self.above, operator.gt),
            ("at most", self.at_most, operator.le),
            ("below", self.below, operator.lt),
        )
        given = [(word, bound, holds) for word, bound, holds in limits if bound is not None]
        if not all(holds(value, bound) for _, bound, holds in given):
            if [word for word, *_ in given] == ["above", "below"]:
                return f"between {self.above} and {self.below}"
            return " and ".join(f"{word} {bound}" for word, bound, _ in given)
        if self.must_be is not None and not self.must_be[1](value):
            return self.must_be[0]
        return None


_UNDECLARED = Declaration()


def option(default: Any, text: str = "", **declared: Any) -> Any:
    """A field of a configuration, or an option of a part (``part_options.py``).

    Args:
      default: its value where none is given.
      text: of a part's option, what it is; a field has the literal below it.
      kind: of a part's option, its type; None: that of the default.
      at_least, above, at_most, below: bounds of a number.
      must_be: what else a number must be, in words, and the function of the number that says so.
      names_of: the registry, by its name in ``ut_tf.registry``, whose names a text is one of.
      besides: further names that such a text may be.
      only_with: the condition under which the field is read at all.
      in_use: whether a trained model may be used with another value.
      is_structure: of a number, that it asks for a part, which a model without the field cannot
        silently go without.
      asks_nothing: further values than the default that a model without the field can go without.
      is_detail: of a choice, that it says how a part works and not whether it is there: a model
        without the part loses nothing by not having the field.
      absent: the value that a stored configuration without the field had, if not the default.
      formerly: the default until 0.4 of a field that now follows from others. A run that was begun
        with it goes on with it.
    """
    declaration = Declaration(text=text, **declared)
    return dataclasses.field(default=default, metadata={_DECLARATION: declaration})


def declaration(field: dataclasses.Field[Any]) -> Declaration:
    """The declaration of a field."""
    declared: Declaration = field.metadata.get(_DECLARATION, _UNDECLARED)
    return declared


def fields_of(config_class: Any) -> Mapping[str, dataclasses.Field[Any]]:
    """The fields of a configuration, by name; the options of parts are not among them."""
    return _fields_of(config_class)


def types_of(config_class: Any) -> Mapping[str, Any]:
    """The types of a configuration's fields, by name."""
    return _types_of(config_class)


@functools.cache
def _fields_of(config_class: Any) -> Mapping[str, dataclasses.Field[Any]]:
    fields = dataclasses.fields(config_class)
    return {field.name: field for field in fields if field.name != PART_OPTIONS}


@functools.cache
def _types_of(config_class: Any) -> Mapping[str, Any]:
    hints = typing.get_type_hints(config_class)
    return {name: hints[name] for name in fields_of(config_class)}


def default_of(field: dataclasses.Field[Any]) -> Any:
    """A field's default, whether it was given as a value or as a factory."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def check_fields(place: str, config_class: Any) -> None:
    """Raises UserError where a configuration has a field that --hparams could not set.

    Args:
      place: what the class is, which the message begins with.
      config_class: a dataclass.
    """
    try:
        types = types_of(config_class)
    except (NameError, TypeError, AttributeError) as error:
        raise UserError(
            f"{place} has a type that cannot be read ({error}): import it outside TYPE_CHECKING."
        ) from error
    for field in fields_of(config_class).values():
        if not field.init or default_of(field) is dataclasses.MISSING:
            raise UserError(f"{place} has the field {field.name} without a default: give it one.")
        if not is_supported(types[field.name]):
            raise UserError(
                f"{place} has the field {field.name} of type {described(types[field.name])}:"
                f" expected {SUPPORTED}."
            )


def choices(config_class: Any, name: str) -> tuple[Any, ...]:
    """The values that a field is one of; none where it may be any number or text."""
    return choices_of(fields_of(config_class)[name], types_of(config_class)[name])


def choices_of(field: dataclasses.Field[Any], annotation: Any) -> tuple[Any, ...]:
    """The values that a field of a type is one of; none where it may be any number or text."""
    declared = declaration(field)
    if declared.names_of is not None:
        return (*declared.besides, *getattr(registry, declared.names_of).names())
    return _literals_of(annotation)


@functools.cache
def _literals_of(annotation: Any) -> tuple[Any, ...]:
    """The values of the literal in a type; none where there is none, and of tuples."""
    if typing.get_origin(annotation) is tuple:
        return ()
    literals = [
        part
        for part in (annotation, *typing.get_args(annotation))
        if typing.get_origin(part) is Literal
    ]
    return typing.get_args(literals[0]) if literals else ()


def checked_value(config_class: Any, name: str, value: Any, parse: bool = False) -> Any:
    """`value` as the type of the field `name`; the rest as of ``checked_as``."""
    field, annotation = fields_of(config_class)[name], types_of(config_class)[name]
    return checked_as(field, annotation, value, parse)


def checked_as(field: dataclasses.Field[Any], annotation: Any, value: Any, parse: bool) -> Any:
    """`value` as the type of a field.

    Args:
      field: declares the bounds.
      annotation: the type.
      value: a value, or with `parse` a text that stands for one.
      parse: whether texts are read.

    Raises:
      ValueError: the field cannot have this value; says what was expected.
    """
    options = choices_of(field, annotation)
    if options:
        optional = type(None) in typing.get_args(annotation)
        if optional and (value is None or (parse and value == "None")):
            return None
        try:
            return chosen(value, options, parse)
        except ValueError as error:
            near = near_names(str(value), map(str, options))
            hint = f" (did you mean {' or '.join(near)}?)" if near else ""
            raise ValueError(f"{error}{hint}") from None
    value = coerce(value, annotation, parse)
    if value is None or isinstance(value, bool):
        return value
    for element in value if isinstance(value, tuple) else (value,):
        if (expected := declaration(field).expectation(element)) is not None:
            raise ValueError(expected)
    return value


def without_effect(config: Any, name: str) -> str | None:
    """The sentence that a field of `config` is never read, with the values of its other fields, or
    None where it is, or where a part of user code may read it. A part reads all of its options.
    """
    field = fields_of(type(config)).get(name)
    condition = None if field is None else declaration(field).only_with
    if condition is None or condition.holds(config) or _is_own(config, condition.field):
        return None
    options = choices(type(config), condition.field)
    readers = (
        [option for option in options if option not in condition.values]
        if condition.excluded
        else condition.values
    )
    return (
        f"{name}={getattr(config, name)} has no effect with"
        f" {condition.field}={getattr(config, condition.field)}, only with"
        f" {' or '.join(str(reader) for reader in readers)}"
    )


def _is_own(config: Any, name: str) -> bool:
    """Whether a field of `config` names what user code registered."""
    names_of = declaration(fields_of(type(config))[name]).names_of
    return names_of is not None and getattr(registry, names_of).is_own(getattr(config, name))
