"""The end-to-end memory network (arXiv 1503.08895): a question that reads facts, hop by hop.

How it is used::

    spec = ProblemSpec("facts", "class", 30, 6, max_words=7)
    model = MemN2N(MemN2NConfig(hidden_size=50, num_steps=3, memory_size=50), spec)
    logits, details = model({"inputs": facts}, return_attention=True)  # [batch, 6]
    details.encoder.attention_weights  # [hops, batch, 1, 1, rows]: what the question read
"""

from collections.abc import Callable
from typing import Any, ClassVar

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.linear import Linear
from ut_tf.models.encoder_decoder import EncoderDecoder
from ut_tf.models.heads import CLASSIFIER
from ut_tf.models.interfaces import CallOptions, Encoded, fixed_depth
from ut_tf.models.memn2n.config import MemN2NConfig
from ut_tf.models.memn2n.hops import MemoryHops


@keras.saving.register_keras_serializable("ut_tf")
class MemN2N(EncoderDecoder):
    """A memory network for problems whose inputs are facts and whose targets are classes; arguments
    and call as of ``EncoderDecoder``.

    Parts, in order: ``MemoryHops``, an encoder with embeddings of its own, whose summary is the
    last hop's u; a classifier softmax(W u) of it. Answers are classes of their own here, not words
    of the facts, so W is not tied to an embedding. Ponder times are the number of hops.
    """

    config_class: ClassVar[type] = MemN2NConfig
    encoder_queries_are_positions: ClassVar[bool] = False

    def check_spec(self) -> None:
        if (self.spec.inputs, self.spec.targets) != ("facts", "class"):
            raise UserError(
                "the model memn2n answers questions on facts with a class, and this problem has"
                f" inputs={self.spec.inputs!r} and targets={self.spec.targets!r}: use a problem"
                " such as babi_qa, or another model."
            )

    def make_parts(self) -> None:
        network, spec, policy = self.network, self.spec, self.dtype_policy.name
        self.hops = MemoryHops(
            spec.input_vocab_size,
            network.hidden_size,
            num_hops=network.num_steps,
            eval_num_hops=network.eval_num_steps,
            memory_size=network.memory_size,
            eval_memory_size=network.eval_memory_size,
            tying=network.hop_tying,
            stddev=network.embedding_stddev,
            kernel_init=network.kernel_init,
            linear_start=network.linear_start > 0,
            memory_noise=network.memory_noise,
            name="hops",
            dtype=policy,
        )
        self.classifier = Linear(
            spec.target_vocab_size, False, network.kernel_init, name=CLASSIFIER, dtype=policy
        )

    def changes(self) -> dict[int, Callable[[], None]]:
        start: int = self.network.linear_start
        return {start: self.hops.insert_softmax} if start else {}

    def encode(self, features: dict[str, Any], options: CallOptions) -> Encoded:
        summary, attention = self.hops(features["inputs"], training=options.training)
        (mask,) = self.counted_positions(features)
        details = fixed_depth(self.hops.hops(options.training), mask)
        if options.return_attention:
            details = details._replace(attention_weights=attention[:, :, None, None])
        return Encoded(None, mask, summary=summary, details=details)

    def class_logits(self, features: dict[str, Any], encoded: Encoded, states: Any) -> Any:
        return tf.cast(self.classifier(encoded.summary), tf.float32)

    def counted_positions(self, features: dict[str, Any]) -> tuple[Any, ...]:
        return (self.hops.mask(features["inputs"]),)
