"""The signatures of an exported model: functions from raw text to raw text.

- ``serving_default``: texts -> ``outputs`` strings and ``scores``, [batch] each ([batch, n_best]
  for several hypotheses); for classes the same as ``classify``, for language models as ``score``.
- ``score``: texts and ``targets`` -> ``log_probabilities`` float32 [batch].
- ``generate``, of language models: texts to go on from -> ``outputs``, what follows each, and
  ``scores``, as of ``serving_default``; the score is that of the whole text.
- ``classify``: texts -> ``outputs``, ``probability`` [batch], ``probabilities`` [batch, classes].
- ``ponder``: texts -> ``tokens`` strings and ``ponder_times`` float32, [batch, length].
- ``start`` and ``step``, of models without a decoder whose positions halt (``slots.py``): ``start``
  makes rows of texts and of the ``length`` int32 [] that their ``ids`` have at least; ``step``
  takes rows and returns those that a recurrent step changes, ``done`` bool [batch], and outputs as
  of ``serving_default``, which hold for examples that are done.

All but these also return strings [batch]: ``error``, a sentence of what was wrong and what was
expected where an example cannot be read, and ``warning``, of what is left out of it or read as
unknown; "" elsewhere. An example with an error has "" and -inf for an answer, probabilities and
steps of 0, and harms no other.

Texts are strings [batch], one input for each of the codec's fields. ``inference.reading`` reads
them, as for ut-decoder. Whatever the batch, some of its examples are computed after the others, so
that the memory is bounded; ``step`` alone computes all its rows at once (``Slots`` bounds them).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.data.text.codec import TextCodec
from ut_tf.data.text.refusals import first_of, shown_words, text_where
from ut_tf.inference.answers import Answers
from ut_tf.inference.batches import MOST_POSITIONS, positions_beside
from ut_tf.inference.parts import in_parts
from ut_tf.inference.reading import Reader, Reading
from ut_tf.inference.refill import can_refill
from ut_tf.layers.recurrence_details import GivenDepth
from ut_tf.problem_spec import ProblemSpec
from ut_tf.search.config import DecodeConfig
from ut_tf.serving.rest_messages import ERROR, WARNING
from ut_tf.serving.slots import DONE, IDS, LENGTH, START, STEP
from ut_tf.serving.weights import StoredWeights

DEFAULT = "serving_default"
TARGETS = "targets"
PROMPTS = "inputs"
_BLANK, _STATE = "blank", "state_"
_REFUSED = -float("inf")


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
        self._reader = Reader(codec, spec, config)
        self.generator = tf.random.Generator.from_seed(seed) if self._answers.random else None
        self._spec = spec
        self._config = config

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signatures that the problem has."""
        model = self._answers.model
        halts = can_refill(model) and model.halts and self._spec.targets in ("aligned", "class")
        return (*self._signatures(), *((START, STEP) if halts else ()))

    def signatures(self, names: Iterable[str]) -> dict[str, Signature]:
        """Some of ``names`` but ``start`` and ``step``, traced; names of one function share it."""
        functions = {name: self._signatures()[name] for name in names}
        traced = {one: self._traced(*one) for one in dict.fromkeys(functions.values())}
        return {name: traced[function] for name, function in functions.items()}

    def _traced(self, answer: Callable[..., Any], inputs: tuple[str, ...]) -> Signature:
        def call(*texts: Any) -> dict[str, Any]:
            size = tf.shape(texts[0])[0]
            with self.weights.scope(self._answers.model):
                answers = answer(*(_valid(text, size) for text in texts))
            return {output: value[:size] for output, value in answers.items()}

        specs = [tf.TensorSpec([None], tf.string, name=field) for field in inputs]
        return Signature(inputs, tf.function(call, autograph=False).get_concrete_function(*specs))

    def slots(self) -> dict[str, Signature]:
        """``start`` and ``step``, traced."""
        states: list[Any] = []
        fields = self.codec.fields

        def begun(ids: Any, blank: Any) -> list[Any]:
            fresh = tf.ones_like(blank)
            states.append(self._stepped(ids, GivenDepth(tf.constant(0), fresh=fresh))[1])
            return list(tf.nest.flatten(states[-1]))

        first = tf.function(begun, autograph=False)

        def start(*given: Any) -> dict[str, Any]:
            *texts, length = given
            size = tf.shape(texts[0])[0]
            texts = [_valid(text, size) for text in texts]
            reading = self._reader.inputs(*texts)
            missing = tf.maximum(length - tf.shape(reading.ids)[1], 0)
            paddings = [[0, 0], [0, missing], [0, 0]][: reading.ids.shape.rank]
            ids = tf.pad(reading.ids, paddings)
            features = {IDS: ids, _BLANK: reading.blank}
            inputs = [tf.TensorSpec(value.shape, value.dtype) for value in features.values()]
            specs = first.get_concrete_function(*inputs).structured_outputs
            specs = [tf.TensorSpec(spec.shape, spec.dtype) for spec in specs]
            state = in_parts(lambda part: first(*part.values()), features, specs, MOST_POSITIONS)
            rows = {IDS: ids, _BLANK: reading.blank, **self._told(reading, texts), **_named(state)}
            return {name: values[:size] for name, values in rows.items()}

        def step(rows: dict[str, Any]) -> dict[str, Any]:
            state = [rows[name] for name in _named(states[0])]
            state = tf.nest.pack_sequence_as(states[0], state)
            logits, state = self._stepped(rows[IDS], GivenDepth(tf.constant(1), state))
            reading = Reading(rows[IDS], rows[ERROR], rows[WARNING], rows[_BLANK])
            answers = self._answered(logits, reading)
            return {**answers, **_named(state), DONE: tf.logical_not(state.active)}

        specs = [tf.TensorSpec([None], tf.string, name=field) for field in fields]
        length = tf.TensorSpec([], tf.int32, name=LENGTH)
        started = tf.function(start, autograph=False).get_concrete_function(*specs, length)
        rows = {
            name: tf.TensorSpec(values.shape, values.dtype, name=name)
            for name, values in started.structured_outputs.items()
        }
        stepped = tf.function(step, autograph=False).get_concrete_function(rows)
        return {START: Signature((*fields, LENGTH), started), STEP: Signature(tuple(rows), stepped)}

    def _stepped(self, ids: Any, depth: GivenDepth) -> tuple[Any, Any]:
        """The logits and the progress of examples, int32 [batch, length, ...], at a depth."""
        model = self._answers.model
        with self.weights.scope(model):
            features = {"inputs": ids, "to_depth": depth}
            logits, details = model(features, training=False, return_details=True)
        return logits, details.encoder.progress

    def _answered(self, logits: Any, reading: Reading) -> dict[str, Any]:
        """The answers that a model without a decoder gives by its logits."""
        if self._spec.has_one_answer:
            return self._classified(logits, reading)
        outputs, scores = self._answers.best(logits, reading.ids)
        return self._unless_blank(outputs[:, None], scores[:, None], reading)

    def classes(self) -> list[str]:
        """The text of every class, in the order of ``probabilities``."""
        return [
            text.decode()
            for text in self.codec.decode(tf.range(self._spec.target_vocab_size)).numpy()
        ]

    def decode(self, *texts: Any) -> dict[str, Any]:
        """The best hypotheses of each example and their scores; of blank texts "" and 0."""
        reading = self._reader.inputs(*texts)
        outputs, scores = self._written({"inputs": reading.ids})
        return self._unless_blank(outputs, scores, reading) | self._told(reading, texts)

    def generate(self, prompts: Any) -> dict[str, Any]:
        """What follows each prompt, and the scores of both together."""
        reading = self._reader.prompts(prompts)
        outputs, scores = self._written({"prefix": reading.ids})
        return self._best(outputs, scores, reading) | self._told(reading, (prompts,))

    def score(self, *texts: Any) -> dict[str, Any]:
        """The log-probability of each example's target, the last of `texts`."""
        *sources, targets = texts
        of_target = self._reader.targets(targets)
        reading = self._reader.inputs(*sources) if sources else of_target
        reading = reading._replace(errors=first_of(reading.errors, of_target.errors))
        features = {"targets": of_target.ids} | ({"inputs": reading.ids} if sources else {})
        scores = _in_parts(self._answers.score, features, [None])
        scores = tf.where(reading.errors == "", scores, _REFUSED)
        return {"log_probabilities": scores} | self._told(reading, sources or (targets,))

    def classify(self, *texts: Any) -> dict[str, Any]:
        """The most probable class of each example, and every class's probability; of blank texts ""
        and 0.
        """
        reading = self._reader.inputs(*texts)
        logits = _in_parts(self._answers.class_logits, {"inputs": reading.ids}, [None, None])
        return self._classified(logits, reading) | self._told(reading, texts)

    def _classified(self, logits: Any, reading: Reading) -> dict[str, Any]:
        answered = tf.logical_and(reading.errors == "", ~reading.blank)
        probabilities = tf.where(answered[:, None], tf.nn.softmax(logits), 0.0)
        best = tf.argmax(probabilities, -1, output_type=tf.int32)
        return {
            "outputs": text_where(answered, self.codec.decode(best)),
            "probability": tf.reduce_max(probabilities, -1),
            "probabilities": probabilities,
        }

    def ponder(self, *texts: Any) -> dict[str, Any]:
        """The symbol at each position of the inputs, and the encoder's recurrent steps there."""
        reading = self._reader.inputs(*texts)
        features = {"inputs": reading.ids}
        times = _in_parts(self._answers.ponder_times, features, [None, None])
        is_read = (reading.errors == "")[:, None]
        return {
            "tokens": text_where(is_read, self.codec.tokens(features)),
            "ponder_times": tf.where(is_read, times, 0.0),
        } | self._told(reading, texts)

    def _written(self, features: dict[str, Any]) -> list[Any]:
        """What is written for features, and the scores, [batch, n_best] each."""
        seed = None if self.generator is None else self.generator.make_seeds(1)[:, 0]
        (ids,) = features.values()
        features["number"] = tf.range(tf.shape(ids)[0])

        def decoded(part: dict[str, Any]) -> tuple[Any, Any]:
            return self._answers.decode(part, seed, part.pop("number"))

        specs = [tf.TensorSpec([None, None], dtype) for dtype in (tf.string, tf.float32)]
        return in_parts(decoded, features, specs, positions_beside(self._answers.rows))

    def _unless_blank(self, outputs: Any, scores: Any, reading: Reading) -> dict[str, Any]:
        blank = reading.blank[:, None]
        outputs, scores = tf.where(blank, "", outputs), tf.where(blank, 0.0, scores)
        return self._best(outputs, scores, reading)

    def _best(self, outputs: Any, scores: Any, reading: Reading) -> dict[str, Any]:
        is_read = (reading.errors == "")[:, None]
        outputs, scores = text_where(is_read, outputs), tf.where(is_read, scores, _REFUSED)
        several = self._config.n_best > 1 and self._spec.targets == "tokens"
        return {
            "outputs": outputs if several else outputs[:, 0],
            "scores": scores if several else scores[:, 0],
        }

    def _told(self, reading: Reading, texts: Sequence[Any]) -> dict[str, Any]:
        """What is said about each example: why it cannot be read, and what was not read of it, or
        not as it stands.
        """
        return {
            ERROR: reading.errors,
            WARNING: text_where(reading.errors == "", self._warnings(reading, texts)),
        }

    def _warnings(self, reading: Reading, texts: Sequence[Any]) -> Any:
        """Sentences about what was left out, and about words that the vocabulary lacks."""
        left_out = tf.strings.join(["the input ", reading.warnings])
        left_out = text_where(reading.warnings != "", left_out)
        found = self.codec.word_list(tf.strings.join(texts, "\n"))
        if found is None:
            return left_out
        words, is_known = found
        unknown = tf.ragged.boolean_mask(words, ~is_known)
        told = tf.strings.join(
            ["the vocabulary lacks words of the input, read as unknown: ", shown_words(unknown)]
        )
        told = text_where(unknown.row_lengths() > 0, told)
        both = tf.logical_and(left_out != "", told != "")
        return tf.strings.join([left_out, tf.where(both, "; ", ""), told])

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


def _named(state: Any) -> dict[str, Any]:
    """The tensors of a structure by name, in order."""
    return {f"{_STATE}{number:02}": one for number, one in enumerate(tf.nest.flatten(state))}


def _valid(texts: Any, size: Any) -> Any:
    """Strings [max(size, 1)], UTF-8: most of what computes an answer wants an example at least."""
    valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    return tf.concat([valid, tf.fill([tf.maximum(1 - size, 0)], "")], 0)


def _in_parts(function: Callable[[Any], Any], features: dict[str, Any], shape: list[Any]) -> Any:
    """The one output of `function`, float32 of a shape, for features of any number of examples."""
    spec = tf.TensorSpec(shape, tf.float32)
    return in_parts(lambda part: (function(part),), features, [spec], MOST_POSITIONS)[0]
