"""Halting at random, a baseline."""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.layers.dropout import replica_seed
from ut_tf.models.universal_transformer.halting.adaptive_computation_time import Basic


@keras.saving.register_keras_serializable("ut_tf")
class Random(Basic):
    """``halting="random"``: as ``Basic``, with probabilities drawn uniformly from [0, 1)."""

    works_incrementally = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator()

    def remedy(self, few: bool) -> str | None:
        """None: nothing moves chance."""

    def build(self, input_shape: Any) -> None:
        """Builds nothing: no probability is computed."""

    def probabilities(self, before: Any, after: Any, counted: Any, step: Any = 0) -> Any:
        # A saved model reads one seed per call: only the step's number makes its steps differ.
        seed = tf.random.experimental.stateless_fold_in(
            replica_seed(self.seed_generator.next()), step
        )
        return tf.random.stateless_uniform(tf.shape(before)[:2], seed)
