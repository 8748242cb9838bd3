"""The answers of a model and its codec to a batch of features, as TensorFlow operations.

``Translator`` compiles them for batches that it makes; an exported model holds them as its
signatures. Example::

    texts, scores = Answers(model, codec, DecodeConfig(n_best=2)).decode(features, seed=0)
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.search.config import DecodeConfig
from ut_tf.search.scoring import log_probabilities
from ut_tf.search.strategies import decode, make_strategy
from ut_tf.symbols import END_ID


class Answers:
    """Texts and scores for features.

    Args:
      model: a built model.
      codec: text form of its problem.
      config: the options of decoding.
    """

    def __init__(self, model: Any, codec: TextCodec, config: DecodeConfig) -> None:
        self.model = model
        self.codec = codec
        self.config = config
        self._strategy = make_strategy(config)

    @property
    def rows(self) -> int:
        """Outputs of each example that are decoded at once."""
        return self._strategy.rows

    @property
    def random(self) -> bool:
        """Whether outputs depend on the seed."""
        return self._strategy.random

    def decode(self, features: dict[str, Any], seed: Any, numbers: Any = None) -> tuple[Any, Any]:
        """Writes outputs.

        Args:
          features: with "inputs".
          seed: of random numbers; None: 0.
          numbers: int32 [batch], each example's own number; None: its place in the batch.

        Returns:
          Texts and scores, [batch, n_best] each, best first.
        """
        symbols, scores = decode(self.model, features, self.config, seed=seed, numbers=numbers)
        texts = self.codec.decode(tf.reshape(symbols, [-1, tf.shape(symbols)[2]]))
        return tf.reshape(texts, tf.shape(scores)), scores

    def classify(self, features: dict[str, Any], count: int) -> tuple[Any, Any]:
        """The `count` most probable classes as texts, and their log-probabilities, [batch, count]
        each.
        """
        scores = tf.nn.log_softmax(self.class_logits(features))
        best, classes = tf.math.top_k(scores, count)
        return tf.reshape(self.codec.decode(tf.reshape(classes, [-1])), tf.shape(classes)), best

    def class_logits(self, features: dict[str, Any]) -> Any:
        """Logits of all classes, [batch, classes]."""
        return self.model(features, training=False)

    def score(self, features: dict[str, Any]) -> Any:
        """log p(targets | inputs) in nats, float32 [batch]; -inf for a class below 0, which is
        none.
        """
        if self.model.spec.targets == "tokens":
            return log_probabilities(self.model, features)
        targets = features["targets"]
        scores = tf.nn.log_softmax(self.class_logits({"inputs": features["inputs"]}))
        return tf.where(
            targets < 0,
            -float("inf"),
            tf.gather(scores, tf.maximum(targets, 0), batch_dims=1),
        )

    def ponder_times(self, features: dict[str, Any]) -> Any:
        """Recurrent steps of the encoder at each position of the inputs, float32 [batch, length]; 0
        on padding.
        """
        inputs = features["inputs"]
        if self.model.spec.targets == "tokens":
            features = {**features, "targets": tf.fill([tf.shape(inputs)[0], 1], END_ID)}
        details = self.model(features, training=False, return_details=True)[1]
        # Without the start symbol, where the model puts one before the inputs.
        times = details.encoder.ponder_times
        times = times[:, tf.shape(times)[1] - tf.shape(inputs)[1] :]
        symbols = inputs != 0
        present = tf.reduce_any(symbols, -1) if inputs.shape.rank == 3 else symbols
        return tf.where(present, times, 0.0)
