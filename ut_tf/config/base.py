"""The base of every configuration: it checks itself, fills in fields, is written and read.

How it is used::

    @dataclass(frozen=True, kw_only=True)
    class LSTMConfig(Config):
        num_layers: int = option(2, at_least=1)

    LSTMConfig(num_layers=0)   # UserError: LSTMConfig: num_layers=0: expected at least 1.

Single fields are checked first, by what they declare (``fields.py``); only where all of them hold
are the rules between fields asked, the method ``mistakes`` of each class.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ut_tf.config.fields import PART_OPTIONS, checked_value, declaration, default_of, fields_of
from ut_tf.config.overrides import parse_assignments
from ut_tf.config.part_options import (
    changed_options,
    choosing_fields,
    completed,
    divided,
    options_of,
    parts_with,
    values_of,
)
from ut_tf.errors import UserError, check_arguments, near_names

if TYPE_CHECKING:
    from ut_tf.config.training import TrainingConfig

Values = Mapping[str, Any]
"""Values of fields and options of parts, by name."""


class Changeable(ABC):
    """Base class of what is changed by the names of fields."""

    def override(self, text: str) -> Self:
        """A copy with what `text`, "name=value,name=value", sets, by the types of the fields.

        Raises:
          UserError: lists every unknown name, every value that its field cannot hold and every pair
            of fields that cannot be together.
        """
        values, mistakes = parse_assignments(text)
        return self._with(values, mistakes, parse=True)

    def change(self, **values: Any) -> Self:
        """A copy with other values of some fields and, by FIELD.OPTION, of options of their parts.

        Raises:
          UserError: as ``override``.
        """
        return self._with(values, [], parse=False)

    @abstractmethod
    def _with(self, values: Values, mistakes: list[str], parse: bool) -> Self:
        """A copy with other values; `parse`: they are texts."""


@dataclass(frozen=True, kw_only=True)
class Config(Changeable):
    """A configuration that cannot exist with a mistake in it.

    Raises:
      UserError: lists every field, or pair of fields, that cannot be.
    """

    heading: ClassVar[str] = ""
    """What its errors begin with; empty: the name of the class."""
    noun: ClassVar[str] = "hyperparameter"
    """What a field is called in errors."""

    part_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    """The options of the parts that fields choose, by FIELD.OPTION (``part_options.py``)."""

    def __new__(cls, *_: Any, **fields: Any) -> Self:
        # The TypeError of a dataclass does not say which name was meant.
        known = inspect.signature(cls.__init__).parameters
        if all(taken.kind is not taken.VAR_KEYWORD for taken in known.values()):
            check_arguments(cls.__name__, fields, [*known][1:])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        values, mistakes = checked(type(self), vars(self))
        self._refuse(mistakes)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def mistakes(self) -> list[str]:
        """A sentence for each pair of fields that cannot be together; all fields have values."""
        return []

    def mistakes_with(self, training: TrainingConfig) -> list[str]:
        """A sentence for each field that does not go with how the network is trained; all fields
        have values.
        """
        return []

    def following(self) -> dict[str, Any]:
        """Values, by field, for those fields whose None means that they follow from others."""
        return {}

    def notes_on(self, given: Collection[str]) -> list[str]:
        """A sentence for each thing that whoever set the fields `given` may not expect; all fields
        have values.
        """
        return []

    def resolved(self) -> Self:
        """A copy whose every field has a value."""
        return dataclasses.replace(self, **filled_in(self))

    def hint(self, name: str) -> str:
        """A hint at what an unknown name means, in brackets; may be empty."""
        near = near_names(name, fields_of(type(self)))
        return f" (did you mean {' or '.join(near)}?)" if near else ""

    def _with(self, values: Values, mistakes: list[str], parse: bool) -> Self:
        changes, wrong = changes_of(self, values, parse)
        own = fields_of(type(self))
        unknown = [name for name in values if name.partition(".")[0] not in own]
        mistakes += [f"unknown {self.noun} {name!r}{self.hint(name)}" for name in unknown]
        self._refuse(mistakes + wrong)
        return dataclasses.replace(self, **changes)

    @classmethod
    def _refuse(cls, mistakes: list[str]) -> None:
        if mistakes:
            raise UserError(f"{cls.heading or cls.__name__}: {'; '.join(mistakes)}.")

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary, ready for JSON; options of parts stand beside the fields."""
        return values_of(self)

    @classmethod
    def from_dict(cls, values: Values) -> Self:
        """The configuration that ``to_dict`` of this version or an earlier one wrote.

        Raises:
          UserError: lists every unknown name and every value that its field cannot hold.
        """
        known, mistakes = stored_values(cls, values)
        cls._refuse(mistakes)
        return cls().change(**known)


def checked(config_class: type[Config], values: Values) -> tuple[dict[str, Any], list[str]]:
    """The values as their fields' types, and every mistake among them.

    Args:
      config_class: the configuration's class.
      values: of all of its fields, by name, and the options of its parts.
    """
    result, mistakes = {}, []
    for name, value in values.items():
        if name == PART_OPTIONS:
            continue
        try:
            result[name] = checked_value(config_class, name, value)
        except ValueError as error:
            mistakes.append(f"{name}={value}: expected {error}")
    if not mistakes:
        options, mistakes = completed(config_class, result, values[PART_OPTIONS])
        result[PART_OPTIONS] = options
    if not mistakes:
        mistakes = _unchecked(config_class, result).mistakes()
    return result, mistakes


def changes_of(config: Config, values: Values, parse: bool) -> tuple[dict[str, Any], list[str]]:
    """What `values` change of a configuration, as the types of its fields, and every mistake among
    them; names that it does not have are left out.

    Args:
      config: before the change.
      values: of fields and, by FIELD.OPTION, of options of their parts.
      parse: whether they are texts that stand for values.
    """
    own = fields_of(type(config))
    known = {name: value for name, value in values.items() if name.partition(".")[0] in own}
    fields, options = divided(known)
    changes: dict[str, Any] = {}
    mistakes = []
    for name, value in fields.items():
        try:
            changes[name] = checked_value(type(config), name, value, parse)
        except ValueError as error:
            mistakes.append(f"{name}={value}: expected {error}")
    # Which options there are follows from the parts.
    if all(name in changes for name in choosing_fields(type(config)) if name in fields):
        changes[PART_OPTIONS], wrong = changed_options(config, changes, options, parse)
        mistakes += wrong
    return changes, mistakes


def stored_values(config_class: type[Config], values: Values) -> tuple[dict[str, Any], list[str]]:
    """The values of a configuration's fields in a stored dictionary, and a sentence for each name
    that no model has.

    Versions until 0.4 stored the fields of all models with each: those of another model are left
    out, and so are options of parts that are not chosen.
    """
    from ut_tf.config.families import models_with

    own = fields_of(config_class)
    fields, options = divided(values)
    known = {name: value for name, value in fields.items() if name in own}
    mistakes = []
    for name in fields:
        if name not in own and not models_with(name):
            near = near_names(name, own)
            hint = f" (did you mean {' or '.join(near)}?)" if near else ""
            mistakes.append(f"unknown hyperparameter {name!r}{hint}")
    known = {**absent_values(config_class), **known}
    return {**known, **_stored_options(config_class, known, options)}, mistakes


def _stored_options(
    config_class: type[Config], fields: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The stored options of the parts that are chosen, and those that no part has any more."""
    defaults = {name: default_of(field) for name, field in fields_of(config_class).items()}
    known = options_of(config_class, {**defaults, **fields})
    absent = {name: declaration(field).absent for name, field in known.items()}
    kept = {
        name: value
        for name, value in options.items()
        if name in known or not parts_with(config_class, name)
    }
    return {**{name: value for name, value in absent.items() if value is not None}, **kept}


def absent_values(config_class: type[Config]) -> dict[str, Any]:
    """The values of fields that a stored configuration lacks, by name: networks behaved so before
    the fields were there.
    """
    declared = {name: declaration(field) for name, field in fields_of(config_class).items()}
    return {name: item.absent for name, item in declared.items() if item.absent is not None}


def former_values(stored: Config, now: Config) -> dict[str, Any]:
    """The former defaults by which a stored configuration, resolved, works, of those fields that
    now follow from others.
    """
    following = now.following()
    declared = {name: declaration(field) for name, field in fields_of(type(now)).items()}
    return {
        name: item.formerly
        for name, item in declared.items()
        if item.formerly is not None
        and getattr(stored, name) == item.formerly
        and getattr(now, name) == following.get(name)
    }


def _unchecked(config_class: type[Config], values: Values) -> Config:
    """A configuration with every field filled in, whose pairs of fields may not go together."""
    config: Config = object.__new__(config_class)
    for name, field in fields_of(config_class).items():
        object.__setattr__(config, name, values[name] if name in values else default_of(field))
    object.__setattr__(config, PART_OPTIONS, values[PART_OPTIONS])
    for name, value in filled_in(config).items():
        object.__setattr__(config, name, value)
    return config


def filled_in(config: Config) -> dict[str, Any]:
    """The values of the fields that are None and follow from others."""
    return {
        name: value for name, value in config.following().items() if getattr(config, name) is None
    }
