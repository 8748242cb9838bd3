"""The Universal Transformer with a transition of its own for each recurrent step: attention is
shared over the steps, the rest is not.

How it is used::

    # else as a UniversalTransformer
    model = ConditionalUniversalTransformer(NetworkConfig(num_steps=4), spec)

How it works: with one attention and the transitions F_1 … F_T,

    A = LayerNorm(x + Attention(x)),  H_t = LayerNorm(A + F_t(A))

at fixed depth with as many transitions as steps, under dynamic halting with act_max_steps. The
layer norms are shared. A network that is as deep as it has transitions cannot go deeper at
evaluation than in training, nor can its depth follow from the input's length.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras

from ut_tf.config.network import NetworkConfig
from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec


@keras.saving.register_keras_serializable("ut_tf")
class ConditionalUniversalTransformer(UniversalTransformer):
    """A Universal Transformer whose steps have transitions of their own; arguments and call as in
    ``AttentionModel``.

    Raises:
      UserError: the recurrence has no transition, or no fixed number of steps.
    """

    catalogue_name: ClassVar[str] = "conditional_universal_transformer"
    with_step_transitions: ClassVar[bool] = True

    def __init__(self, network: NetworkConfig, spec: ProblemSpec, **kwargs: Any) -> None:
        super().__init__(network, spec, **kwargs)
        if self.network.steps_per_position:
            raise UserError(
                "a conditional_universal_transformer has one transition for each step, and"
                " steps_per_position makes their number depend on the input: set it to 0."
            )
