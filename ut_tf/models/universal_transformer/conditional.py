"""The Universal Transformer with a transition of its own for each recurrent step.

::

    config = ConditionalUniversalTransformerConfig(num_steps=4)
    model = ConditionalUniversalTransformer(config, spec)  # else as a UniversalTransformer

With one attention and the transitions F_1 … F_T,

    A = LayerNorm(x + Attention(x)),  H_t = LayerNorm(A + F_t(A))

T is num_steps, under dynamic halting act_max_steps. The layer norms are shared over the steps.
"""

from typing import ClassVar

import keras

from ut_tf.models.universal_transformer.config import ConditionalUniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer


@keras.saving.register_keras_serializable("ut_tf")
class ConditionalUniversalTransformer(UniversalTransformer):
    """A Universal Transformer whose steps have transitions of their own; arguments and call as in
    ``AttentionModel``.
    """

    config_class: ClassVar[type] = ConditionalUniversalTransformerConfig
    with_step_transitions: ClassVar[bool] = True
