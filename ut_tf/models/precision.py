"""The precisions that models and layers take."""

from typing import Any

from ut_tf.errors import UserError


def check_precision(policy: Any) -> None:
    """Raises UserError for a Keras dtype policy whose weights are not float32."""
    if policy.variable_dtype != "float32":
        raise UserError(
            f"dtype={policy.name!r} is not supported, since ut-tf has weights and sums in float32:"
            " use 'float32', 'mixed_bfloat16' or 'mixed_float16'."
        )
