"""What each hyperparameter is, in the words below its field; imports no TensorFlow.

How it is used::

    texts(TrainingConfig)["optimizer"]    # "muon: for kernels of two dimensions ..."
    hyperparameter_help()["optimizer"]    # the same with choices and default
"""

from __future__ import annotations

import ast
import inspect
import itertools
import typing
from functools import cache

from ut_tf import registry
from ut_tf.config.families import config_class
from ut_tf.config.fields import choices, declaration, default_of, fields_of, types_of
from ut_tf.config.training import TrainingConfig
from ut_tf.data.arguments import as_written

_KINDS = {int: "whole number", float: "number", bool: "true, false"}


def texts(config: type) -> dict[str, str]:
    """The text below each field that the class itself declares, in the order of its source."""
    (definition,) = ast.parse(inspect.getsource(config)).body
    assert isinstance(definition, ast.ClassDef)
    own = fields_of(config)
    return {
        statement.target.id: " ".join(ast.literal_eval(text.value).split())
        for statement, text in itertools.pairwise(definition.body)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(text, ast.Expr)
        and statement.target.id in own
    }


def values(config: type, name: str) -> tuple[list[str], bool]:
    """What a field may be, its choices or the kind of its values, and whether it may be None."""
    annotation = types_of(config)[name]
    kinds = typing.get_args(annotation) or (annotation,)
    named = [str(choice) for choice in choices(config, name)]
    return (
        named or [next(_KINDS[kind] for kind in kinds if kind in _KINDS)],
        type(None) in kinds,
    )


@cache
def hyperparameter_help() -> dict[str, str]:
    """Each hyperparameter, of all models and of training: its text, values, default and models."""
    found: dict[str, str] = {}
    models = {name: config_class(name) for name in registry.models.names()}
    classes = {base: None for config in models.values() for base in reversed(config.__mro__)}
    for config in [*classes, TrainingConfig]:
        if config is object or not hasattr(config, "__dataclass_fields__"):
            continue
        for name, text in texts(config).items():
            owners = [model for model, whole in models.items() if name in fields_of(whole)]
            found.setdefault(name, _described(config, name, text, owners, len(models)))
    return found


def _described(config: type, name: str, text: str, owners: list[str], count: int) -> str:
    named, is_optional = values(config, name)
    parts = [text.rstrip("."), " or ".join([*named, "None"] if is_optional else named)]
    parts.append(f"default: {as_written(default_of(fields_of(config)[name]))}")
    condition = declaration(fields_of(config)[name]).only_with
    if condition is not None and not condition.excluded:
        options = (f"{condition.field}={as_written(value)}" for value in condition.values)
        parts.append(f"only with {' or '.join(options)}")
    if 0 < len(owners) < count:
        parts.append(f"of {', '.join(owners)}")
    return "; ".join(parts)
