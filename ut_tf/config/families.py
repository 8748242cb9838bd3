"""Which configuration each model has, and which models have a field; imports no TensorFlow."""

from typing import Any

from ut_tf import registry
from ut_tf.config.fields import fields_of
from ut_tf.errors import UserError

_DEFAULT = "ut_tf.models.universal_transformer.config:UniversalTransformerConfig"


def config_class(model: str) -> Any:
    """The class of a registered model's configuration.

    Raises:
      UserError: there is no such model; the near names are in the message.
    """
    return registry.models.config_class(model, _DEFAULT)


def models_with(field: str) -> list[str]:
    """The names of the models whose configuration has a field of this name, sorted."""
    return [name for name in registry.models.names() if field in fields_of(config_class(name))]


def every_field() -> set[str]:
    """The names of the fields of all models."""
    return {field for name in registry.models.names() for field in fields_of(config_class(name))}


def as_config(model_class: Any, value: Any) -> Any:
    """The configuration that a model is called with.

    Args:
      model_class: the model's class, which says by ``config_class`` what it is configured by.
      value: such a configuration, or what its ``to_dict`` wrote.

    Raises:
      UserError: it is the configuration of another model.
    """
    expected = model_class.config_class
    if isinstance(value, dict):
        return expected.from_dict(value)
    if not isinstance(value, expected):
        raise UserError(
            f"a {model_class.__name__} is configured by a {expected.__name__}, not by a"
            f" {type(value).__name__}: give it one."
        )
    return value
