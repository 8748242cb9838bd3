"""Training on random symbols, for benchmarks that need no data.

::

    trained = Trained(make_hparams("ut_tiny"), spec, make_strategy(0))
    trained.update(BatchShape(64, 20, 20))
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import keras
import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.factories import make_model
from ut_tf.planning.operations import BatchShape
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import make_optimizer
from ut_tf.training.step import TrainingStep


class Trained:
    """A newly made model that trains on random symbols.

    Args:
      hparams: resolved.
      spec: of the problem.
      strategy: tf.distribute strategy.
    """

    def __init__(self, hparams: HParams, spec: ProblemSpec, strategy: Any) -> None:
        self._spec = spec
        self._workers = Workers.of(strategy)
        keras.utils.set_random_seed(0)
        with strategy.scope():
            self.model = make_model(hparams, spec, 0)
            optimizer = make_optimizer(self.model.trainable_variables, hparams, 0)
        signature = {
            name: tf.TensorSpec(self._unknown(name, value.shape), value.dtype)
            for name, value in self.features(BatchShape(1, 2, 2)).items()
        }
        self._step = TrainingStep(self.model, optimizer, hparams, self._workers, signature)

    def graph(self, batch: BatchShape) -> Any:
        """The tf.Graph of an update on a batch of just this shape."""
        function = tf.function(self._step._run_whole, autograph=False)
        return function.get_concrete_function(self.features(batch), ()).graph

    def update(self, batch: BatchShape) -> Any:
        """One update of a batch for each replica; waits for its end and returns its report."""
        return self._step.read([self._step.update([self.features(batch)])[0]])[0]

    def features(self, batch: BatchShape) -> dict[str, Any]:
        """Random features, with one batch for each replica of this process stacked in front where
        there are several replicas.
        """
        spec = self._spec
        shapes: dict[str, tuple[list[int], int]] = {}
        if spec.inputs != "none":
            words = [spec.max_words] if spec.inputs == "facts" else []
            shapes["inputs"] = ([batch.examples, batch.length, *words], spec.input_vocab_size)
        positions = [batch.target_length] if spec.targets == "tokens" else []
        shapes["targets"] = ([batch.examples, *positions], spec.target_vocab_size)
        front = self._front
        features = {
            name: tf.random.uniform([*front, *shape], 2, size, tf.int32)
            for name, (shape, size) in shapes.items()
        }
        return {**features, "weight": tf.ones([*front, batch.examples])}

    @property
    def _front(self) -> list[int]:
        workers = self._workers
        return [] if workers.replicas == 1 else [workers.replicas // workers.count]

    def _unknown(self, name: str, shape: Any) -> list[int | None]:
        """A shape whose lengths are open, but for the words of a fact."""
        sizes: list[int | None] = [*self._front, *[None] * (len(shape) - len(self._front))]
        if name == "inputs" and self._spec.inputs == "facts":
            sizes[-1] = self._spec.max_words
        return sizes
