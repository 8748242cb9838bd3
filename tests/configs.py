"""Small configurations of any model, from sizes that several models share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ut_tf.config.fields import fields_of


def small_config(model_class: Any, sizes: Mapping[str, Any], **changes: Any) -> Any:
    """The configuration of a model class with those of the sizes that it has, and all changes."""
    kind = model_class.config_class
    own = {name: value for name, value in sizes.items() if name in fields_of(kind)}
    return kind(**{**own, **changes})
