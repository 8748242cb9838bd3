"""The Universal Transformer with a transition of its own for each recurrent step: attention is
shared over the steps, the rest is not.

How it is used::

    # else as a UniversalTransformer
    config = ConditionalUniversalTransformerConfig(num_steps=4)
    model = ConditionalUniversalTransformer(config, spec)

How it works: with one attention and the transitions F_1 … F_T,

    A = LayerNorm(x + Attention(x)),  H_t = LayerNorm(A + F_t(A))

at fixed depth with as many transitions as steps, under dynamic halting with act_max_steps. The
layer norms are shared. A network that is as deep as it has transitions cannot go deeper at
evaluation than in training, nor can its depth follow from the input's length.
"""

from __future__ import annotations

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
