"""The signatures of an exported model: functions from raw text to raw text.

- ``serving_default``: texts -> ``outputs`` strings and ``scores``, [batch] each ([batch, n_best]
  for several hypotheses); for classes the same as ``classify``, for language models as ``score``.
- ``score``: texts and ``targets`` -> ``log_probabilities`` float32 [batch].
- ``generate``, of language models: texts to go on from -> ``outputs``, what follows each, and
  ``scores``, as of ``serving_default``; the score is that of the whole text.
- ``classify``: texts -> ``outputs``, ``probability`` [batch], ``probabilities`` [batch, classes].
- ``ponder``: texts -> ``tokens`` strings and ``ponder_times`` float32, [batch, length].

Texts are strings [batch], one input for each of the codec's fields. Bytes that are not UTF-8 are
read as U+FFFD. Inputs of which an output is written are cut to ``max_input_length`` symbols, as
ut-decoder cuts them, the beginning of a prompt and the end of others: memory grows with the square
of their length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.inference.answers import Answers
from ut_tf.inference.cutting import cut, last
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.config import DecodeConfig
from ut_tf.serving.weights import StoredWeights

DEFAULT = "serving_default"
TARGETS = "targets"
PROMPTS = "inputs"


class Signature(NamedTuple):
    """A function that is traced for strings [batch], and the names of its inputs, in order."""

    inputs: tuple[str, ...]
    function: Any


class Servable(tf.Module):  # type: ignore[misc]
    """The object that is saved: the codec's tables, the stored weights and, for sampling, a random
    generator, without the Keras model.

    Args:
      model: a built keras.Model for `spec`.
      codec: the problem's TextCodec.
      spec: ProblemSpec.
      config: how ``serving_default`` decodes.
      weights: of `model`.
      seed: of sampling; each request draws new numbers.
    """

    def __init__(
        self,
        model: Any,
        codec: TextCodec,
        spec: ProblemSpec,
        config: DecodeConfig,
        weights: StoredWeights,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.codec = codec
        self.weights = weights
        # It is no tf.Module: the model, which it holds, would be saved as well.
        self._answers = Answers(model, codec, config)
        self.generator = tf.random.Generator.from_seed(seed) if self._answers.random else None
        self._spec = spec
        self._config = config

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signatures that the problem has."""
        return tuple(self._signatures())

    def signature(self, name: str) -> Signature:
        """The named one of ``names``, traced."""
        answer, inputs = self._signatures()[name]

        def call(*texts: Any) -> dict[str, Any]:
            size = tf.shape(texts[0])[0]
            with self.weights.scope(self._answers.model):
                answers = answer(*(_valid(text, size) for text in texts))
            return {output: value[:size] for output, value in answers.items()}

        specs = [tf.TensorSpec([None], tf.string, name=field) for field in inputs]
        return Signature(inputs, tf.function(call, autograph=False).get_concrete_function(*specs))

    def classes(self) -> list[str]:
        """The text of every class, in the order of ``probabilities``."""
        return [
            text.decode()
            for text in self.codec.decode(tf.range(self._spec.target_vocab_size)).numpy()
        ]

    def decode(self, *texts: Any) -> dict[str, Any]:
        """The best hypotheses of each example and their scores; of blank texts "" and 0."""
        outputs, scores = self._answers.decode(self._features(texts), self._seed())
        blank = tf.reduce_all([tf.equal(tf.strings.strip(text), "") for text in texts], 0)[:, None]
        return self._best(tf.where(blank, "", outputs), tf.where(blank, 0.0, scores))

    def generate(self, prompts: Any) -> dict[str, Any]:
        """What follows each prompt, and the scores of both together; "" and -inf of a prompt that
        leaves no room within the longest output.
        """
        ids = self._answers.prompts(prompts)
        prefix = _with_a_position(last(ids, self._config.max_input_length))
        outputs, scores = self._answers.decode({"prefix": prefix}, self._seed())
        longest = self._config.longest or prefix.dtype.max
        fits = tf.math.count_nonzero(prefix, 1, keepdims=True, dtype=tf.int32) < longest
        return self._best(tf.where(fits, outputs, ""), tf.where(fits, scores, -float("inf")))

    def _seed(self) -> Any:
        return None if self.generator is None else self.generator.make_seeds(1)[:, 0]

    def _best(self, outputs: Any, scores: Any) -> dict[str, Any]:
        several = self._config.n_best > 1 and self._spec.targets == "tokens"
        return {
            "outputs": outputs if several else outputs[:, 0],
            "scores": scores if several else scores[:, 0],
        }

    def score(self, *texts: Any) -> dict[str, Any]:
        """The log-probability of each example's target, the last of `texts`."""
        features = {**self._features(texts[:-1]), "targets": self.codec.encode_targets(texts[-1])}
        return {"log_probabilities": self._answers.score(features)}

    def classify(self, *texts: Any) -> dict[str, Any]:
        """The most probable class of each example, and every class's probability."""
        probabilities = tf.nn.softmax(self._answers.class_logits(self._features(texts)))
        best = tf.argmax(probabilities, -1, output_type=tf.int32)
        return {
            "outputs": self.codec.decode(best),
            "probability": tf.reduce_max(probabilities, -1),
            "probabilities": probabilities,
        }

    def ponder(self, *texts: Any) -> dict[str, Any]:
        """The symbol at each position of the inputs, and the encoder's recurrent steps there."""
        features = self._features(texts)
        return {
            "tokens": self.codec.tokens(features),
            "ponder_times": self._answers.ponder_times(features),
        }

    def _features(self, texts: tuple[Any, ...]) -> dict[str, Any]:
        if not texts:
            return {}
        features = self.codec.encode(*texts)
        inputs = _with_a_position(features["inputs"])
        cuts = self._spec.inputs == "tokens" and not self._spec.has_one_answer
        return {
            **features,
            "inputs": cut(inputs, self._config.max_input_length) if cuts else inputs,
        }

    def _signatures(self) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
        """The function of each signature, and the names of its inputs."""
        fields = self.codec.fields
        score = (self.score, (*fields, TARGETS))
        if self._spec.inputs == "none":
            return {DEFAULT: score, "score": score, "generate": (self.generate, (PROMPTS,))}
        ponder = (self.ponder, fields)
        if self._spec.has_one_answer:
            return {
                DEFAULT: (self.classify, fields),
                "classify": (self.classify, fields),
                "ponder": ponder,
            }
        return {DEFAULT: (self.decode, fields), "score": score, "ponder": ponder}


def _valid(texts: Any, size: Any) -> Any:
    """Strings [max(size, 1)] that are UTF-8: most of what computes an answer wants one
    example at least.
    """
    valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    return tf.concat([valid, tf.fill([tf.maximum(1 - size, 0)], "")], 0)


def _with_a_position(ids: Any) -> Any:
    """ids [batch, length, ...] with one position of padding where there is none, which no
    network can read.
    """
    missing = tf.maximum(1 - tf.shape(ids)[1], 0)
    return tf.pad(ids, [[0, 0], [0, missing], [0, 0]][: ids.shape.rank])
