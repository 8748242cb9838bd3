"""The Transformer of "Attention Is All You Need" (arXiv 1706.03762): layers with weights of their
own.

How it is used::

    spec = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)
    model = Transformer(TransformerConfig(num_layers=6), spec)
    logits = model({"inputs": inputs, "targets": targets})  # [batch, target_length, 12]

How it works: its encoder and decoder are each a ``LayerStack`` of num_layers blocks, the same
blocks that a Universal Transformer repeats; all else it shares with the other models
(``attention_model.py``).
"""

from typing import ClassVar

import keras

from ut_tf.layers.stack import LayerStack
from ut_tf.models.attention_model import AttentionModel
from ut_tf.models.parts_from_config import make_layer_stack
from ut_tf.models.transformer.config import TransformerConfig


@keras.saving.register_keras_serializable("ut_tf")
class Transformer(AttentionModel):
    """A Transformer for a problem's inputs and targets; arguments and call are those of
    ``EncoderDecoder``.
    """

    config_class: ClassVar[type] = TransformerConfig

    def make_stack(self, causal: bool, with_memory: bool, name: str) -> LayerStack:
        """A stack of layers."""
        options = {"name": name, "dtype": self.dtype_policy}
        return make_layer_stack(
            self.network, self.network.num_layers, causal, with_memory, **options
        )
