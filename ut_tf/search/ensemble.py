"""Several models as one, whose probabilities are the mean of theirs.

Example::

    ensemble = Ensemble([first, second])
    decode(ensemble, {"inputs": inputs}, DecodeConfig(beam_size=4))
    log_probabilities(ensemble, {"inputs": inputs, "targets": targets})

Each model keeps its own cache, or computes its whole prefixes, so that families and halting forms
mix. The models share the ids of one vocabulary.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.search.contract import CONSTANTS, EXAMPLES, Cache

_FIXED, _CHANGING = (CONSTANTS, EXAMPLES), "changing"


class EnsembleDetails(NamedTuple):
    """The details of an ensemble: none, since each model ponders for itself."""

    encoder: None = None
    decoder: None = None


class Ensemble:
    """The mean of the probabilities of models, as one to search, score and classify with.

    Args:
      models: at least one, with one ``spec``.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = tuple(models)

    @property
    def spec(self) -> Any:
        """The ProblemSpec of the models."""
        return self.models[0].spec

    def __call__(
        self, features: dict[str, Any], training: bool = False, return_details: bool = False
    ) -> Any:
        """Log-probabilities float32 [..., target_vocab_size], in place of the models' logits; with
        details ``EnsembleDetails``.
        """
        logits = mean_log_probabilities(
            [model(features, training=training) for model in self.models]
        )
        return (logits, EnsembleDetails()) if return_details else logits

    @property
    def supports_incremental_decoding(self) -> bool:
        return all(model.supports_incremental_decoding for model in self.models)

    def count_params(self) -> int:
        """The numbers in the weights of all models."""
        return sum(model.count_params() for model in self.models)


class EnsembleStepper:
    """Steps of an ensemble: those of its models side by side.

    Args:
      steppers: of the models, with the same number of hypotheses.
    """

    def __init__(self, steppers: Sequence[Any]) -> None:
        self.steppers = tuple(steppers)
        self.beam_size = self.steppers[0].beam_size

    def start(self, features: dict[str, Any], capacity: Any, max_length: Any) -> Cache:
        """The caches before the first position, as one."""
        return _joined([stepper.start(features, capacity, max_length) for stepper in self.steppers])

    def step(self, symbols: Any, index: Any, cache: Cache) -> tuple[Any, Cache]:
        """(mean log-probabilities float32 [batch * beam_size, vocab] of position `index`, the new
        cache), given the symbols before it.
        """
        stepped = [
            stepper.step(symbols, index, own)
            for stepper, own in zip(self.steppers, _divided(cache), strict=True)
        ]
        logits, caches = zip(*stepped, strict=True)
        return mean_log_probabilities(logits), _joined(caches)

    def reorder(self, cache: Cache, parents: Any) -> Cache:
        """The cache in which each hypothesis goes on from another one: `parents`, int32 [batch,
        beam_size].
        """
        return _joined(
            [
                stepper.reorder(own, parents)
                for stepper, own in zip(self.steppers, _divided(cache), strict=True)
            ]
        )

    def resize(self, cache: Cache, kept: Any, capacity: Any) -> Cache:
        """The cache of the examples `kept`, with room for `capacity` positions."""
        return _joined(
            [
                stepper.resize(own, kept, capacity)
                for stepper, own in zip(self.steppers, _divided(cache), strict=True)
            ]
        )


def mean_log_probabilities(logits: Sequence[Any]) -> Any:
    """log((p_1 + ... + p_n) / n) of the distributions p that `logits`, float32 [..., vocab] each,
    stand for.
    """
    each = [tf.nn.log_softmax(tf.cast(one, tf.float32)) for one in logits]
    return tf.reduce_logsumexp(tf.stack(each), 0) - math.log(len(each))


def _joined(caches: Sequence[Cache]) -> Cache:
    """Returns one cache of several; constants and examples stand apart from changing values."""
    fixed = {
        name: tuple({name: cache[name]} if name in cache else {} for cache in caches)
        for name in _FIXED
    }
    changing = tuple(
        {name: part for name, part in cache.items() if name not in _FIXED} for cache in caches
    )
    return {**fixed, _CHANGING: changing}


def _divided(cache: Cache) -> list[Cache]:
    """The caches that ``_joined`` made one of."""
    parts = zip(*(cache[name] for name in (*_FIXED, _CHANGING)), strict=True)
    return [{**constants, **examples, **changing} for constants, examples, changing in parts]
