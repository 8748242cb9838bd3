"""Methods that judge batches of features in a compiled graph.

The graph turns each batch into sums per example (``ut_tf.metrics.per_example``); they are added up
in float64 and divided at the end. It is traced once: batch sizes and lengths are unknown to it.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from ut_tf.data.pipeline import eval_batches
from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.method import EvaluationContext, EvaluationMethod
from ut_tf.loading import place
from ut_tf.metrics import per_example
from ut_tf.metrics.sums import COMPUTING, PONDERING, GroupedSums, Metric

# Inputs of rows of words, [batch, facts + 1, words].
_FACTS_RANK = 3


class BatchMethod(EvaluationMethod):
    """A method that judges batches; subclasses give ``metrics`` and ``judge``."""

    metrics: ClassVar[Mapping[str, Metric]] = {}
    """Metrics by name; their sums are those of ``judge``, and "examples"."""
    # Attention weights of 400 symbols leave these in a few hundred megabytes.
    batch_tokens: ClassVar[int] = 8192
    """Tokens in a batch, padding included."""
    features: ClassVar[tuple[str, ...]] = ()
    """Features that the examples must have, besides inputs and targets."""

    def __init__(self, context: EvaluationContext) -> None:
        super().__init__(context)
        self._graphs: dict[Any, Callable[[Any], dict[str, Any]]] = {}
        if not self.metrics:
            raise UserError(
                f"the evaluation method {type(self).__name__} has no metrics: set `metrics` to a"
                " dictionary of ut_tf.metrics.sums.Metric by name."
            )

    @property
    def metric_names(self) -> tuple[str, ...]:
        return (*self.metrics, *PONDERING, *COMPUTING)

    def check(self, evaluation_set: EvaluationSet) -> None:
        self.batches(evaluation_set)

    @abstractmethod
    def judge(self, features: dict[str, Any]) -> dict[str, Any]:
        """Sums of each example, float32 [batch] by name; TensorFlow operations, without AutoGraph.

        Args:
          features: tensors [batch, ...] by name, "weight" (0 for examples that fill up a batch)
            among them.
        """

    def measure(self, evaluation_set: EvaluationSet, with_intervals: bool) -> Measurement:
        batches = self.batches(evaluation_set)
        judge = self._graph(batches.element_spec)
        sums = self.new_sums(evaluation_set)
        for batch in batches:
            judged = {name: value.numpy() for name, value in judge(batch).items()}
            self.add(sums, judged, batch, evaluation_set)
        return self.measurement(sums, evaluation_set, with_intervals)

    def new_sums(self, evaluation_set: EvaluationSet) -> GroupedSums:
        """Returns sums of the set to which nothing is added yet."""
        return GroupedSums(self.metrics, evaluation_set.ponder_by, evaluation_set.group_by)

    def add(
        self,
        sums: GroupedSums,
        judged: Mapping[str, Any],
        batch: Mapping[str, Any],
        evaluation_set: EvaluationSet,
    ) -> None:
        """Adds a batch, of which ``judge`` gave `judged`, to the sums."""
        weights = batch["weight"].numpy()
        needed = {name for metric in self.metrics.values() for name in metric.sums} - {"examples"}
        shapes = {name: list(np.shape(value)) for name, value in judged.items()}
        wanted = list(weights.shape)
        if wrong := [name for name in sorted(needed) if shapes.get(name) != wanted]:
            raise UserError(
                f"evaluation method {evaluation_set.method!r} ({place(type(self))}): its sums are"
                f" {shapes}; `metrics` need {dict.fromkeys(wrong, wanted)}."
            )
        groups = [
            batch[name].numpy() if name else None
            for name in (evaluation_set.group_by, evaluation_set.ponder_by)
        ]
        sums.add(judged, weights, *groups)

    def measurement(
        self, sums: GroupedSums, evaluation_set: EvaluationSet, with_intervals: bool
    ) -> Measurement:
        """Returns what the sums of a set say."""
        return Measurement(
            sums.metrics(spreads=with_intervals),
            sums.intervals() if with_intervals else {},
            {evaluation_set.name: sums.examples},
            groups=sums.groups(),
        )

    def batches(self, evaluation_set: EvaluationSet) -> Any:
        """Returns the batches of the set.

        Raises:
          UserError: the examples lack a feature.
        """
        batches = eval_batches(
            self.context.problem,
            evaluation_set,
            self.context.data_dir,
            batch_tokens=self.context.batch_tokens or self.batch_tokens,
        )
        self._check_features(batches.element_spec, evaluation_set)
        return batches

    def _check_features(self, spec: Mapping[str, Any], evaluation_set: EvaluationSet) -> None:
        present, problem = ", ".join(sorted(spec)), self.context.problem.name
        for name in self.features:
            if name not in spec:
                raise UserError(
                    f"problem {problem}: method {evaluation_set.method} needs the feature {name!r};"
                    f" the features are {present} in its split {evaluation_set.split!r}: judge"
                    " another `split`."
                )
        for group in (evaluation_set.group_by, evaluation_set.ponder_by):
            if group and group not in spec:
                raise UserError(
                    f"problem {problem}: an evaluation set groups examples by {group!r}; their"
                    f" features are {present}."
                )

    def _graph(self, element_spec: Mapping[str, Any]) -> Callable[[Any], dict[str, Any]]:
        signature = any_lengths(element_spec)
        key = tuple(sorted((name, str(spec)) for name, spec in signature.items()))
        if key not in self._graphs:
            graph = tf.function(
                # AutoGraph would rewrite the source of all that is called, and trace no faster.
                self.judge,
                input_signature=[signature],
                autograph=False,
            )
            # Where calls trace it, TensorFlow warns of retracing after a few evaluations.
            if not tf.config.functions_run_eagerly():
                graph.get_concrete_function()
            self._graphs[key] = graph
        return self._graphs[key]


class PredictionMethod(BatchMethod):
    """A method that judges the logits of one call of the model, and its ponder times where it halts
    dynamically; subclasses give ``metrics`` and ``per_example``.
    """

    @abstractmethod
    def per_example(self, logits: Any, features: Mapping[str, Any]) -> dict[str, Any]:
        """Sums of each example, float32 [batch] by name.

        Args:
          logits: [batch, classes] or [batch, target_length, vocab].
          features: as for ``judge``.
        """

    def judge(self, features: dict[str, Any]) -> dict[str, Any]:
        logits, details = self.context.model(features, training=False, return_details=True)
        return self.judged(logits, details, features)

    def judged(self, logits: Any, details: Any, features: dict[str, Any]) -> dict[str, Any]:
        """Returns what ``judge`` does, of the result of a call of the model."""
        judged = self.per_example(logits, features)
        return {**judged, **pondering(details), **pondering_roles(details, features)}


def pondering(details: Any) -> dict[str, Any]:
    """Sums of the ponder times in ModelDetails, of the encoder or, where that has none or a fixed
    depth, of the decoder, and of the steps that were computed, of both; empty at fixed depth.
    """
    parts = [part for part in (details.encoder, details.decoder) if _halts(part)]
    if not parts:
        return {}
    computed = [_computing(part) for part in parts]
    sums = {name: tf.add_n([own[name] for own in computed]) for name in computed[0]}
    return {**per_example.pondering(parts[0].ponder_times, parts[0].mask), **sums}


def pondering_roles(details: Any, features: Mapping[str, Any]) -> dict[str, Any]:
    """Sums of the ponder times in ModelDetails by what the positions hold: question and facts of a
    story; all of source and target, where both ponder, and their ends. The end of a target is the
    position that predicts it.
    """
    sums: dict[str, Any] = {}
    both = _halts(details.encoder) and _halts(details.decoder)
    if _halts(details.encoder):
        roles = _encoder_roles(details.encoder.mask, features["inputs"], both)
        sums |= _of_roles(details.encoder, roles)
    if _halts(details.decoder):
        roles = _token_roles("target", details.decoder.mask, features["targets"], both)
        sums |= _of_roles(details.decoder, roles)
    return sums


def _halts(part: Any) -> bool:
    """Whether the details are those of a part that halts dynamically."""
    return part is not None and part.halting_probabilities is not None


def _encoder_roles(mask: Any, inputs: Any, has_target: bool) -> dict[str, Any]:
    if inputs.shape.rank == _FACTS_RANK:
        question = per_example.last_position(mask)
        return {"question": question, "facts": 1.0 - question}
    return _token_roles("source", mask, inputs, has_target)


def _token_roles(name: str, mask: Any, symbols: Any, whole: bool) -> dict[str, Any]:
    """The positions of a sequence's end and, if `whole`, all of them; float32 [batch, length]."""
    end = per_example.last_position(mask) * per_example.ends(symbols)
    return {**({name: mask} if whole else {}), f"{name}_end": end}


def _of_roles(part: Any, roles: Mapping[str, Any]) -> dict[str, Any]:
    return per_example.pondering_roles(part.ponder_times, part.mask, roles)


def _computing(part: Any) -> dict[str, Any]:
    depth = tf.shape(part.halting_probabilities)[0]
    steps = part.computed_steps
    if steps is None:
        steps = tf.cast(depth, tf.float32) * part.mask
    return per_example.computing(steps, depth, part.mask)


def any_lengths(element_spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specs of a batch with its batch size and lengths unknown; the words of a fact keep their
    number.
    """
    return {
        name: tf.TensorSpec([None, None, *spec.shape[2:]][: spec.shape.rank], spec.dtype)
        for name, spec in element_spec.items()
    }
