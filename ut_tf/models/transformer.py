"""The Transformer of "Attention Is All You Need" (arXiv 1706.03762): layers with weights of their own.

How it is used::

    spec = ProblemSpec(inputs="tokens", targets="tokens", input_vocab_size=12, target_vocab_size=12, shared_vocab=True)
    model = Transformer(NetworkConfig(num_layers=6), spec)
    logits = model({"inputs": inputs, "targets": targets})                        # [batch, target_length, 12]

How it works: its encoder and decoder are each a ``LayerStack`` of num_layers blocks, the same blocks that a Universal Transformer
repeats; all else it shares with the other models (``sequence_model.py``). Of NetworkConfig, what concerns recurrent steps and halting has
no meaning here.
"""

from __future__ import annotations

from typing import Any

import keras

from ut_tf.config import NetworkConfig
from ut_tf.data.problem import ProblemSpec
from ut_tf.errors import UserError
from ut_tf.layers.stack import LayerStack
from ut_tf.models.sequence_model import SequenceModel

# Fields that would ask for a recurrence, and the values that ask for none.
_WITHOUT_RECURRENCE = {
    "halting": "none",
    "recurrence": "basic",
    "steps_per_position": 0.0,
    "recurrence_layers": 1,
    "mix_layers_before": 0,
    "mix_layers_after": 0,
    "recurrent_layer": "none",
}


def refuse_recurrence(network: NetworkConfig | dict[str, Any], model: str) -> None:
    """Raises UserError where the network (or what its ``to_dict`` returns) asks for a recurrence, which `model` does not have."""
    values = network if isinstance(network, dict) else network.to_dict()
    asked = [f"{name}={values[name]}" for name, none in _WITHOUT_RECURRENCE.items() if values[name] != none]
    if asked:
        raise UserError(f"the model {model} has no recurrence, so {' and '.join(asked)} cannot be: use model=universal_transformer.")


@keras.saving.register_keras_serializable("ut_tf")
class Transformer(SequenceModel):
    """A Transformer for a problem's inputs and targets; arguments and call as in ``SequenceModel``.

    Raises:
      UserError: the network asks for a recurrence.
    """

    def __init__(self, network: NetworkConfig, spec: ProblemSpec, **kwargs: Any) -> None:
        refuse_recurrence(network, "transformer")
        super().__init__(network, spec, **kwargs)

    def make_stack(self, causal: bool, with_memory: bool, name: str) -> LayerStack:
        """Returns a stack of layers."""
        return LayerStack(self.network, causal, with_memory, name=name, dtype=self.dtype_policy)
