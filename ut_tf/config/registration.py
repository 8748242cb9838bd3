"""What models, parts and problems must have to be registered: a class of configuration, options
that can be set, arguments that are files declared as such.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ut_tf.config.base import Config
from ut_tf.config.fields import check_fields, checked_as
from ut_tf.config.overrides import SUPPORTED, is_supported
from ut_tf.config.part_options import kind_of, parameters
from ut_tf.errors import UserError

_FILE_KINDS = ("file", "files")


def check_model(name: str, factory: Any) -> None:
    """Checks the configuration class of a model that user code registers.

    Args:
      name: of the model.
      factory: what makes it; its attribute ``config_class`` is the class, if it has one.

    Raises:
      UserError: the model's class declares a ``config_class`` without setting it; or the class is
        no configuration, or has a field that --hparams could not set.
    """
    config_class = getattr(factory, "config_class", None)
    if config_class is None and not _declares_one(factory):
        return
    if config_class is None:
        raise UserError(
            f"model {name!r} has no `config_class`: set it, in the body of the class"
            f" {factory.__name__}, to the class of its hyperparameters, such as"
            " UniversalTransformerConfig."
        )
    place = f"model {name!r}: its `config_class` {getattr(config_class, '__name__', config_class)}"
    if not _is_configuration(config_class):
        raise UserError(
            f"{place} is no frozen dataclass of hyperparameters: derive it from a built-in"
            " configuration or from one of its groups, under @dataclass(frozen=True, kw_only=True)."
        )
    check_fields(place, config_class)


def check_part(name: str, factory: Any) -> None:
    """Checks the options of a part that user code registers.

    Args:
      name: of the part.
      factory: what makes it; its attribute ``options``, if it has one, declares its options.

    Raises:
      UserError: an option that --hparams could not set, or that the part's constructor lacks.
    """
    options = getattr(factory, "options", {})
    place = f"{name!r}: its `options`"
    if not isinstance(options, Mapping):
        raise UserError(f"{place} are a {type(options).__name__}; expected a dictionary.")
    for option, field in options.items():
        if not isinstance(field, dataclasses.Field):
            raise UserError(
                f"{place} have {option!r}: {field!r}; expected"
                f' {option!r}: option({field!r}, "what it is"), of ut_tf.config.fields.'
            )
        if option not in parameters(factory):
            raise UserError(
                f"{place} have {option!r}, which its constructor does not take: add the parameter."
            )
        if not is_supported(kind_of(field)):
            raise UserError(
                f"{place} have {option!r} with the default {field.default!r}: give its type, such"
                f" as kind=int | None; expected {SUPPORTED}."
            )
        try:
            checked_as(field, kind_of(field), field.default, parse=False)
        except ValueError as error:
            raise UserError(
                f"{place} have {option!r} with the default {field.default!r}: expected {error}."
            ) from None


def check_problem(name: str, factory: Any) -> None:
    """Raises UserError where a problem's ``file_arguments`` do not say of each name whether it is
    one file or several.

    Args:
      name: of the problem.
      factory: what makes it: as a rule its class.
    """
    declared = getattr(factory, "file_arguments", {})
    if not isinstance(declared, Mapping) or any(
        kind not in _FILE_KINDS for kind in declared.values()
    ):
        raise UserError(
            f"problem {name!r}: its `file_arguments` are {declared!r}; expected a dictionary from"
            f' each argument to "file" or "files", such as {{"train_file": "file"}}.'
        )


def _declares_one(factory: Any) -> bool:
    bases = getattr(factory, "__mro__", ())
    return any("config_class" in vars(base).get("__annotations__", {}) for base in bases)


def _is_configuration(config_class: Any) -> bool:
    if not (isinstance(config_class, type) and issubclass(config_class, Config)):
        return False
    # Without its decorator a class has the fields of its base alone.
    own_fields = any(isinstance(value, dataclasses.Field) for value in vars(config_class).values())
    return "__dataclass_fields__" in vars(config_class) or not own_fields
