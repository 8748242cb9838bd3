"""The end-to-end memory network (arXiv 1503.08895): a question that reads facts, hop by hop.

How it is used::

    spec = ProblemSpec("facts", "class", 30, 6, max_words=7)
    model = MemN2N(NetworkConfig(hidden_size=50, num_heads=1, num_steps=3, memory_size=50), spec)
    logits, details = model({"inputs": facts}, return_attention=True)             # [batch, 6]
    details.encoder.attention_weights  # [hops, batch, 1, 1, rows]: what the question read

How it works: ``models/memn2n/hops.py`` has the equations; the answer is softmax(W u) of the last
hop's u. Answers are classes of their own here, not words of the facts, so W is not tied to an
embedding.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.checks import impossible_hops
from ut_tf.config.network import NetworkConfig
from ut_tf.config.unused import refuse_needless
from ut_tf.errors import UserError
from ut_tf.layers.details import RecurrenceDetails
from ut_tf.layers.linear import Linear
from ut_tf.models.encoder_decoder import ModelDetails
from ut_tf.models.exportable_model import ExportableModel
from ut_tf.models.heads import write_outputs
from ut_tf.models.memn2n.hops import MemoryHops
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.strategies import Decoded


@keras.saving.register_keras_serializable("ut_tf")
class MemN2N(ExportableModel):
    """A memory network for problems whose inputs are facts and whose targets are classes.

    Args:
      network: NetworkConfig; num_steps is the number of hops, memory_size that of the facts that
        are read.
      spec: ProblemSpec.

    Call arguments:
      features: {"inputs": int32 [batch, rows, words]}; other keys are ignored.
      training: which number of hops and facts holds.
      return_details: whether to return (logits, ModelDetails). Its ponder times are the number of
        hops.
      return_attention: the same, with the attention of the question over all rows, float32 [hops,
        batch, 1, 1, rows].

    Returns:
      float32 logits [batch, classes].

    Raises:
      UserError: the network asks for what the model has no use for, or the spec for what it cannot
        answer.
    """

    has_encoder = True
    has_decoder = False
    supports_incremental_decoding = False

    def __init__(self, network: NetworkConfig, spec: ProblemSpec, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = NetworkConfig.from_dict(network) if isinstance(network, dict) else network
        self.spec = ProblemSpec.from_dict(spec) if isinstance(spec, dict) else spec
        if (self.spec.inputs, self.spec.targets) != ("facts", "class"):
            raise UserError(
                "the model memn2n answers questions on facts with a class, and this problem has"
                f" inputs={self.spec.inputs!r} and targets={self.spec.targets!r}: use a problem"
                " such as babi_qa, or another model."
            )
        refuse_needless("memn2n", self.network, impossible_hops("memn2n", self.network))
        self.hops = MemoryHops(
            self.spec.input_vocab_size, self.network, name="hops", dtype=self.dtype_policy
        )
        init = self.network.kernel_init
        self.classifier = Linear(
            self.spec.target_vocab_size, False, init, name="classifier", dtype=self.dtype_policy
        )
        self.hops.build((None, None, None))
        self.classifier.build((None, self.network.hidden_size))
        for part in self._flatten_layers(include_self=True):
            part.built = True

    def call(
        self,
        features: dict[str, Any],
        training: bool = False,
        return_details: bool = False,
        return_attention: bool = False,
    ) -> Any:
        training = bool(training)
        state, attention = self.hops(features["inputs"], training=training)
        logits = tf.cast(self.classifier(state), tf.float32)
        if not return_details and not return_attention:
            return logits
        (mask,) = self.counted_positions(features)
        weights = attention[:, :, None, None] if return_attention else None
        times = float(self.hops.hops(training)) * mask
        return logits, ModelDetails(
            RecurrenceDetails(times, tf.zeros_like(mask), mask, None, weights), None
        )

    def counted_positions(self, features: dict[str, Any]) -> tuple[Any, ...]:
        """Returns the rows that are not padding, float32 [batch, rows]: the mask of the details."""
        return (self.hops.mask(features["inputs"]),)

    def generate(self, features: dict[str, Any], seed: Any = None, **options: Any) -> Decoded:
        """Raises UserError: a classifier writes nothing."""
        return write_outputs(self, features, seed, options)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "network": self.network.to_dict(),
            "spec": self.spec.to_dict(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> MemN2N:
        del custom_objects
        return cls(**config)
