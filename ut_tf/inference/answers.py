"""The answers of a model and its codec to a batch of features, as TensorFlow operations.

``Translator`` compiles them for batches that it makes; an exported model holds them as its
signatures. Example::

    texts, scores = Answers(model, codec, DecodeConfig(n_best=2)).decode(features, seed=0)
"""

from typing import Any

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.inference.asked import Asked
from ut_tf.inference.int8_decoder import decoder_in
from ut_tf.inference.reading import refuse_puzzles
from ut_tf.layers.start_symbol import without_start
from ut_tf.metrics.losses import smoothed_cross_entropy
from ut_tf.search.config import DecodeConfig
from ut_tf.search.scoring import log_probabilities
from ut_tf.search.strategies import decode, make_strategy
from ut_tf.symbols import END_ID, PADDING_ID


class Answers:
    """Texts and scores for features.

    Args:
      model: a built model.
      codec: text form of its problem.
      config: the options of decoding.

    Raises:
      UserError: the model answers by the number of a puzzle.
    """

    def __init__(self, model: Any, codec: TextCodec, config: DecodeConfig) -> None:
        refuse_puzzles(model)
        self.model = model
        self.codec = codec
        self.config = config
        self._strategy = make_strategy(config)
        self._decoder = decoder_in(model, config.compute_type)

    @property
    def rows(self) -> int:
        """Outputs of each example that are decoded at once."""
        return self._strategy.rows

    @property
    def random(self) -> bool:
        """Whether outputs depend on the seed."""
        return self._strategy.random

    def decode(self, features: dict[str, Any], seed: Any, numbers: Any = None) -> tuple[Any, Any]:
        """Writes outputs; of aligned targets the most probable one at each position that asks for
        one, of a language model what follows each prompt.

        Args:
          features: with "inputs"; of a language model with "prefix", int32 [batch, length].
          seed: of random numbers; None: 0.
          numbers: int32 [batch], each example's own number; None: its place in the batch.

        Returns:
          Texts and scores, [batch, n_best] each, best first.
        """
        if self.model.spec.targets == "aligned":
            texts, scores = self.best(self.class_logits(features), features["inputs"])
            return texts[:, None], scores[:, None]
        symbols, scores = decode(self._decoder, features, self.config, seed=seed, numbers=numbers)
        texts = self.codec.decode(tf.reshape(symbols, [-1, tf.shape(symbols)[2]]))
        if "prefix" in features:
            prompts = tf.repeat(self.codec.decode(features["prefix"]), tf.shape(scores)[1])
            texts = _behind(texts, prompts)
        return tf.reshape(texts, tf.shape(scores)), scores

    def best(self, logits: Any, inputs: Any) -> tuple[Any, Any]:
        """The best answer of a model without a decoder as text, and its log-probability, [batch]
        each.

        Args:
          logits: from ``class_logits``.
          inputs: of the examples.
        """
        if self.model.spec.targets != "aligned":
            texts, scores = self._most_probable(logits, 1)
            return texts[:, 0], scores[:, 0]
        asked = Asked(self.codec, inputs)
        scores = tf.nn.log_softmax(asked.first(logits))
        symbols = tf.argmax(scores, -1, output_type=tf.int32)
        answered = asked.answered(symbols)
        texts = self.codec.decode(tf.where(answered, symbols, PADDING_ID))
        return texts, tf.reduce_sum(tf.where(answered, tf.reduce_max(scores, -1), 0.0), 1)

    def classify(self, features: dict[str, Any], count: int) -> tuple[Any, Any]:
        """The `count` most probable classes as texts, and their log-probabilities, [batch, count]
        each.
        """
        return self._most_probable(self.class_logits(features), count)

    def _most_probable(self, logits: Any, count: int) -> tuple[Any, Any]:
        best, classes = tf.math.top_k(tf.nn.log_softmax(logits), count)
        return tf.reshape(self.codec.decode(tf.reshape(classes, [-1])), tf.shape(classes)), best

    def class_logits(self, features: dict[str, Any]) -> Any:
        """Logits of a model without a decoder: of all classes, [batch, classes], or of aligned
        targets, [batch, length, target_vocab_size].
        """
        return self.model(features, training=False)

    def score(self, features: dict[str, Any]) -> Any:
        """log p(targets | inputs) in nats, float32 [batch]; -inf for a class below 0, which is
        none, and for aligned targets that are not as long as what the inputs ask for.
        """
        if self.model.spec.targets == "tokens":
            return log_probabilities(self.model, features)
        if self.model.spec.targets == "aligned":
            return self._aligned_score(features)
        targets = features["targets"]
        scores = tf.nn.log_softmax(self.class_logits({"inputs": features["inputs"]}))
        return tf.where(
            targets < 0, -float("inf"), tf.gather(scores, tf.maximum(targets, 0), batch_dims=1)
        )

    def _aligned_score(self, features: dict[str, Any]) -> Any:
        inputs, targets = features["inputs"], features["targets"]
        asked = Asked(self.codec, inputs)
        length = tf.shape(inputs)[1]
        missing = tf.maximum(length - tf.shape(targets)[1], 0)
        targets = tf.pad(targets, [[0, 0], [0, missing]])
        logits = asked.first(self.class_logits({"inputs": inputs}))
        losses = smoothed_cross_entropy(logits, targets[:, :length])
        scores = tf.where(targets[:, :length] == PADDING_ID, 0.0, -losses)
        return tf.where(asked.fits(targets), tf.reduce_sum(scores, 1), -float("inf"))

    def ponder_times(self, features: dict[str, Any]) -> Any:
        """Recurrent steps of the encoder at each position of the inputs, float32 [batch, length]; 0
        on padding.
        """
        inputs = features["inputs"]
        if self.model.spec.targets == "tokens":
            features = {**features, "targets": tf.fill([tf.shape(inputs)[0], 1], END_ID)}
        details = self.model(features, training=False, return_details=True)[1]
        times = without_start(details.encoder.ponder_times, inputs)
        symbols = inputs != 0
        present = tf.reduce_any(symbols, -1) if inputs.shape.rank == 3 else symbols
        return tf.where(present, times, 0.0)


def _behind(texts: Any, prompts: Any) -> Any:
    """What stands in each text behind its prompt, strings [batch]; the whole text where it does not
    begin with the prompt.
    """
    length = tf.strings.length(prompts)
    begins = tf.equal(tf.strings.substr(texts, tf.zeros_like(length), length), prompts)
    return tf.strings.substr(texts, tf.where(begins, length, 0), tf.strings.length(texts))
