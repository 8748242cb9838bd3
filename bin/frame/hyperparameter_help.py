"""What each hyperparameter is, in the words below its field; imports no TensorFlow.

How it is used::

    texts(TrainingConfig)["optimizer"]    # "muon: for kernels between hidden states, ..."
    hyperparameter_help()                 # [("optimizer", "muon: ...; default: adam"), ...]
"""

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import typing
from collections.abc import Mapping
from typing import Any

from ut_tf import registry
from ut_tf.config.families import config_class
from ut_tf.config.fields import choices_of, declaration, default_of, fields_of, types_of
from ut_tf.config.part_options import every_option, kind_of
from ut_tf.config.training import TrainingConfig
from ut_tf.data.arguments import as_written

_KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}


def texts(config: type) -> dict[str, str]:
    """The text below each field that the class itself declares, in the order of its source; none
    of a class whose source cannot be read.
    """
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(definition, ast.ClassDef)
    own = fields_of(config)
    return {
        statement.target.id: " ".join(text.value.value.split())
        for statement, text in itertools.pairwise(definition.body)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
        and statement.target.id in own
    }


def values(field: dataclasses.Field[Any], annotation: Any) -> tuple[list[str], bool]:
    """What a field, or an option of a part, may be: its choices or the kind of its values, and
    whether it may be None.
    """
    is_tuple = typing.get_origin(annotation) is tuple
    kinds = [annotation] if is_tuple else list(typing.get_args(annotation)) or [annotation]
    named = [str(choice) for choice in choices_of(field, annotation)]
    return (
        named or [_kind_text(kind) for kind in kinds if kind is not type(None)],
        type(None) in kinds,
    )


def _kind_text(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        inner = dict.fromkeys(_kind_text(part) for part in typing.get_args(kind) if part is not ...)
        return f"{', '.join(inner)}, several with + between them"
    return _KINDS.get(kind, str(kind))


def hyperparameter_help() -> list[tuple[str, str]]:
    """A row for each hyperparameter of the models, of their parts and of training: its name, and
    its text, values, default, condition and models. Where models declare a name differently, it has
    several rows.
    """
    configs = {name: config_class(name) for name in registry.models.names()}
    owners: dict[tuple[str, type], list[str]] = {}
    for model, config in configs.items():
        for name in fields_of(config):
            owners.setdefault((name, _declaring(config, name)), []).append(model)
    owners |= {(name, TrainingConfig): list(configs) for name in fields_of(TrainingConfig)}
    classes = {base for _, declaring in owners for base in declaring.__mro__}
    known = {base: texts(base) for base in classes if hasattr(base, "__dataclass_fields__")}
    rows: dict[tuple[str, str], list[str]] = {}
    for (name, declaring), models in owners.items():
        rows.setdefault((name, _described(declaring, name, known)), []).extend(models)
    for model, config in configs.items():
        for name, part, option in every_option(config):
            rows.setdefault((name, _described_option(name, part, option)), []).append(model)
    return [
        (name, text if len(models) == len(configs) else f"{text}; of {', '.join(sorted(models))}")
        for (name, text), models in rows.items()
    ]


def _declaring(config: type, name: str) -> type:
    """The class that a configuration has a field from."""
    return next(
        (base for base in config.__mro__ if name in vars(base).get("__annotations__", {})), config
    )


def _described(config: type, name: str, known: Mapping[type, Mapping[str, str]]) -> str:
    """A field in words; `known` has the texts of its class and of those that it comes from."""
    text = next((known[base][name] for base in config.__mro__ if name in known.get(base, {})), "")
    field = fields_of(config)[name]
    condition = declaration(field).only_with
    needed = ""
    if condition is not None:
        kept = "not" if condition.excluded else "only"
        options = (f"{condition.field}={as_written(value)}" for value in condition.values)
        needed = f"{kept} with {' or '.join(options)}"
    return _sentence(text, field, types_of(config)[name], needed)


def _described_option(name: str, part: str, option: dataclasses.Field[Any]) -> str:
    """FIELD.OPTION of a part in words."""
    needed = f"only with {name.partition('.')[0]}={part}"
    return _sentence(declaration(option).text, option, kind_of(option), needed)


def _sentence(text: str, field: dataclasses.Field[Any], annotation: Any, needed: str) -> str:
    named, is_optional = values(field, annotation)
    is_told = len(named) > 1 and all(re.search(rf"\b{re.escape(value)}\b", text) for value in named)
    choice = "" if is_told else " or ".join([*named, "None"] if is_optional else named)
    default = f"default: {as_written(default_of(field))}"
    return "; ".join(filter(None, [text.rstrip("."), choice, default, needed]))
