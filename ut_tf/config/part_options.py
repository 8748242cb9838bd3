"""The options that a part declares, which a user sets as FIELD.OPTION.

A part, such as a cell or a halting form, declares them as a class attribute. Its constructor takes
each by its name::

    @registry.register_halting("patient")
    class Patient(Basic):
        options = {"first": option(2, "the first step at which a position may halt", at_least=1)}

        def __init__(self, first, **kwargs): ...

    HParams().override("halting=patient,halting.first=3").network.part_options
    # {"halting.first": 3}

A configuration holds every option of the parts that its fields choose, and no other. Choosing
another part begins with the defaults of its options.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ut_tf import registry
from ut_tf.config.fields import PART_OPTIONS, checked_as, declaration, fields_of
from ut_tf.errors import near_names
from ut_tf.registry import Registry


def choosing_fields(config_class: Any) -> dict[str, Registry]:
    """The fields that choose a part, and the registry of its names."""
    declared = {
        name: declaration(field).names_of for name, field in fields_of(config_class).items()
    }
    return {name: getattr(registry, kind) for name, kind in declared.items() if kind is not None}


def kind_of(field: dataclasses.Field[Any]) -> Any:
    """The type of an option: the one that it declares, or its default's."""
    return declaration(field).kind or type(field.default)


def options_of(config_class: Any, values: Mapping[str, Any]) -> dict[str, dataclasses.Field[Any]]:
    """The options, by FIELD.OPTION, of the parts that the values of a configuration's fields
    choose.
    """
    return {
        f"{name}.{option}": field
        for name, kind in choosing_fields(config_class).items()
        for option, field in kind.options(values[name]).items()
    }


def declared(config: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a configuration and the options of its parts, by name."""
    return {**fields_of(type(config)), **options_of(type(config), vars(config))}


def values_of(config: Any) -> dict[str, Any]:
    """The values of a configuration's fields and of its parts' options, by name."""
    fields = {name: getattr(config, name) for name in fields_of(type(config))}
    return {**fields, **config.part_options}


def own_options(config: Any, field: str) -> dict[str, Any]:
    """The options of the part that a field chooses, by the names that the part gives them."""
    options: Mapping[str, Any] = getattr(config, PART_OPTIONS, {})
    split = {name: name.partition(".") for name in options}
    return {split[name][2]: value for name, value in options.items() if split[name][0] == field}


def divided(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of fields, and those of options."""
    fields = {name: value for name, value in values.items() if "." not in name}
    return fields, {name: value for name, value in values.items() if name not in fields}


def changed_options(
    config: Any, changes: Mapping[str, Any], given: Mapping[str, Any], parse: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The options of a configuration after a change, as ``completed`` returns them.

    Args:
      config: before the change.
      changes: other values of its fields.
      given: options that are set, by FIELD.OPTION.
      parse: whether the options are texts that stand for values.
    """
    after = {**vars(config), **changes}
    kept = {
        name: value
        for name, value in config.part_options.items()
        if after[_field(name)] == getattr(config, _field(name))
    }
    return completed(type(config), after, {**kept, **given}, parse)


def completed(
    config_class: Any, values: Mapping[str, Any], given: Mapping[str, Any], parse: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Every option of the parts that `values` choose, and a sentence for each that cannot be.

    Args:
      config_class: the configuration's class.
      values: of its fields.
      given: options that are set, by FIELD.OPTION; the others have their defaults.
      parse: whether they are texts that stand for values.
    """
    options = options_of(config_class, values)
    result = {name: field.default for name, field in options.items()}
    mistakes = []
    for name, value in given.items():
        if name not in options:
            mistakes.append(_unknown(config_class, values, name, options))
            continue
        try:
            result[name] = checked_as(options[name], kind_of(options[name]), value, parse)
        except ValueError as error:
            mistakes.append(f"{name}={value}: expected {error}")
    return result, mistakes


def every_option(config_class: Any) -> list[tuple[str, str, dataclasses.Field[Any]]]:
    """FIELD.OPTION, the part that has it and its declaration, for all parts that a configuration
    may choose.
    """
    return [
        (f"{name}.{option}", part, field)
        for name, kind in choosing_fields(config_class).items()
        for part in kind.names()
        for option, field in kind.options(part).items()
    ]


def parts_with(config_class: Any, name: str) -> list[str]:
    """The parts that have the option FIELD.OPTION, chosen or not."""
    return [part for option, part, _ in every_option(config_class) if option == name]


def parameters(factory: Callable[..., Any]) -> set[str]:
    """The names of all parameters that `factory` takes and has not been given; a class' own
    ``**kwargs`` stand for the parameters of its base classes.
    """
    given: set[str] = set()
    while isinstance(factory, functools.partial):
        given |= {*factory.keywords}
        factory = factory.func
    functions = [factory]
    if isinstance(factory, type):
        functions = [vars(base)["__init__"] for base in factory.__mro__ if "__init__" in vars(base)]
    names: set[str] = set()
    for function in functions:
        own = inspect.signature(function).parameters
        names |= {*own}
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in own.values()):
            break
    return names - given - {"self", "args", "kwargs"}


def _field(name: str) -> str:
    return name.partition(".")[0]


def _unknown(
    config_class: Any, values: Mapping[str, Any], name: str, options: Iterable[str]
) -> str:
    """The sentence about an option that no part, or only one that is not chosen, has."""
    field, _, option = name.partition(".")
    if parts := parts_with(config_class, name):
        return (
            f"{name} is an option of {field}={' or '.join(parts)}, not of {field}={values[field]}:"
            " leave it out"
        )
    near = [option] if option in fields_of(config_class) else near_names(name, options)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    if not hint and field in choosing_fields(config_class):
        own = [known for known in options if _field(known) == field]
        hint = f" ({field}={values[field]} has {', '.join(own) or 'no options'})"
    return f"unknown {config_class.noun} {name!r}{hint}"
