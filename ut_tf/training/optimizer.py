"""Adam, AdamW or Muon over all weights at once, with clipping, a dynamic loss scale and a moving
average of the weights.

A Keras optimizer adds up the gradients of the replicas after it clipped them, refuses accumulation
under MirroredStrategy, and branches for every skipped update. Here gradients arrive already summed
over replicas and accumulated batches; each replica applies the same update to its own copy of each
weight, by TensorFlow's fused kernel, and needs no synchronisation.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.models.heads import LOGITS_LAYERS
from ut_tf.training.gradient_noise import GradientNoise
from ut_tf.training.muon import muon_step
from ut_tf.training.schedules import learning_rate

INITIAL_LOSS_SCALE = 2.0**15
LOSS_SCALE_PERIOD = 2000
_SMALLEST_SIDE = 8
"""Fewest inputs and outputs of a kernel that Muon is for; a convolution's are its channels."""


class Optimizer:
    """The state of Adam or Muon, of the loss scale and of the weights' average; make it under the
    strategy's scope.

    With g the gradient after clipping to the global norm, t the number of the update and a the
    learning rate (Kingma & Ba 2015, the form at the end of section 2; Loshchilov & Hutter 2019)::

        w = w - a * weight_decay * w                       (kernels only)
        m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
        w = w - a * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon)

    With optimizer=muon the kernels between hidden states follow ``muon_step`` instead of the last
    two lines, and everything else follows Adam. With puzzle_optimizer=signsgd the vectors of
    puzzles have no moments (the code of HRM and TRM): with c = a * puzzle_learning_rate /
    learning_rate, those of the update's puzzles, whose gradient is not all 0, follow ::

        w = w - c * puzzle_weight_decay * w - c * sign(g)

    The loss is multiplied by the loss scale before the gradient is taken. Where a gradient is not
    finite, the update is skipped and the scale halved; after LOSS_SCALE_PERIOD finite updates in a
    row it is doubled.

    Args:
      weights: trainable Keras variables, in the model's order.
      training: resolved hyperparameters.
      hidden_size: d, for the noam schedule.
      noise: on the gradient, if there is any.
    """

    def __init__(
        self,
        weights: Sequence[Any],
        training: TrainingConfig,
        hidden_size: int,
        noise: GradientNoise | None = None,
    ) -> None:
        self.weights = tuple(weights)
        self._training = training
        self._hidden_size = hidden_size
        self._noise = noise
        self.iterations = _scalar(0, tf.int64, "iterations")
        signs = training.puzzle_optimizer == "signsgd"
        self._by_sign = [signs and is_puzzle_table(weight) for weight in weights]
        self.first_moments = [
            _moment(weight, "first_moment", not by_sign)
            for weight, by_sign in zip(weights, self._by_sign, strict=True)
        ]
        # Replicas orthogonalise the same momentum, each for itself: as far as they are of one kind,
        # their products are the same to the bit.
        self._by_muon = [training.optimizer == "muon" and is_hidden(weight) for weight in weights]
        if training.optimizer == "muon" and not any(self._by_muon):
            raise UserError(
                "optimizer=muon: this model has no kernel between hidden states with at least"
                f" {_SMALLEST_SIDE} inputs and outputs, which Muon is for; use optimizer=adam."
            )
        self.second_moments = [
            _moment(weight, "second_moment", not (by_muon or by_sign))
            for weight, by_muon, by_sign in zip(weights, self._by_muon, self._by_sign, strict=True)
        ]
        self.averages = [_copy_of(weight) for weight in weights] if training.average_decay else []
        scaled = training.loss_scale == "dynamic"
        self.scale = _scalar(INITIAL_LOSS_SCALE, tf.float32, "loss_scale") if scaled else None
        self.finite_updates = _scalar(0, tf.int64, "finite_updates") if scaled else None

    def state(self) -> dict[str, Any]:
        """The variables that a checkpoint must hold beside the weights and their averages.

        Returns:
          Names -> variables or lists of them.
        """
        scale = {}
        if self.scale is not None:
            scale = {"scale": self.scale, "finite_updates": self.finite_updates}
        return {
            "iterations": self.iterations,
            "first_moments": self.first_moments,
            "second_moments": self.second_moments,
            **scale,
        }

    @property
    def loss_scale(self) -> Any:
        """The factor on the loss: a float32 scalar, 1 where the loss is not scaled."""
        return tf.constant(1.0) if self.scale is None else tf.identity(self.scale)

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Within the context the weights are their averages, where these are kept."""
        if not self.averages:
            yield
            return
        kept = [tf.identity(weight.value) for weight in self.weights]
        for weight, average in zip(self.weights, self.averages, strict=True):
            weight.value.assign(tf.identity(average))
        try:
            yield
        finally:
            for weight, value in zip(self.weights, kept, strict=True):
                weight.value.assign(value)

    def apply(self, gradients: Sequence[Any], faults: Any = None) -> tuple[Any, Any]:
        """Updates the weights once, in a replica's context.

        Args:
          gradients: dense float32 tensors in the weights' order, of the loss times ``loss_scale``,
            summed over the replicas.
          faults: float32 [], the share of the examples with a fault, for the noise.

        Returns:
          The gradient's global norm before clipping and the learning rate, float32 scalars. The
          norm is not finite exactly when the gradient is not; then the update is skipped if the
          loss is scaled, and spoils the weights if not.
        """
        if self.scale is not None:
            gradients = [gradient / self.loss_scale for gradient in gradients]
        else:
            gradients = list(gradients)
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm) if self.scale is not None else None
        gradients = self._clip(gradients, norm, finite)
        if self._noise is not None and faults is not None:
            gradients = self._noise(gradients, self.iterations.read_value() + 1, faults)
        rate = learning_rate(self.iterations.read_value() + 1, self._training, self._hidden_size)
        self._count(finite)
        self._update(gradients, rate, finite)
        self._average(finite)
        return norm, rate

    def _clip(self, gradients: Sequence[Any], norm: Any, finite: Any) -> Sequence[Any]:
        limit = self._training.clip_norm
        if limit:
            factor = tf.minimum(1.0, limit / tf.maximum(norm, tf.constant(1e-30)))
            gradients = [gradient * factor for gradient in gradients]
        if finite is None:
            return gradients
        return [tf.where(finite, gradient, tf.zeros_like(gradient)) for gradient in gradients]

    def _count(self, finite: Any) -> None:
        if finite is None:
            _assign_add(self.iterations, 1)
            return
        _assign_add(self.iterations, tf.cast(finite, tf.int64))
        streak = tf.where(finite, self.finite_updates.read_value() + 1, 0)  # type: ignore[union-attr]
        grow = streak >= LOSS_SCALE_PERIOD
        _assign(self.finite_updates, tf.where(grow, tf.zeros_like(streak), streak))
        factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
        _assign(self.scale, self.scale.read_value() * factor)  # type: ignore[union-attr]

    def _update(self, gradients: Sequence[Any], rate: Any, finite: Any) -> None:
        training = self._training
        # A skipped update is Adam with rate 0 and both decays 1, which changes nothing: no branch,
        # no copies.
        applied = tf.constant(1.0) if finite is None else tf.cast(finite, tf.float32)
        beta1 = 1.0 - applied * (1.0 - training.adam_beta1)
        beta2 = 1.0 - applied * (1.0 - training.adam_beta2)
        updates = tf.cast(tf.maximum(self.iterations.read_value(), 1), tf.float32)
        powers = tf.pow(training.adam_beta1, updates), tf.pow(training.adam_beta2, updates)
        # Made once for all weights: each operation takes its time when the graph is traced.
        rate, epsilon = rate * applied, tf.constant(training.adam_epsilon)
        decay = rate * training.weight_decay if training.weight_decay else None
        for weight, by_muon, by_sign, first, second, gradient in zip(
            self.weights,
            self._by_muon,
            self._by_sign,
            self.first_moments,
            self.second_moments,
            gradients,
            strict=True,
        ):
            variable = weight.value
            if decay is not None and is_decayed(weight):
                _assign_sub(variable, decay * variable.read_value())
            if by_muon:
                self._orthogonal_step(variable, first, gradient, rate, applied)
                continue
            if by_sign:
                self._signed_step(variable, gradient, rate)
                continue
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                epsilon=epsilon,
                grad=tf.cast(gradient, variable.dtype),
            )

    def _orthogonal_step(
        self, variable: Any, momentum: Any, gradient: Any, rate: Any, applied: Any
    ) -> None:
        before = momentum.read_value()
        step, after = muon_step(gradient, before, self._training.muon_momentum)
        # The rate of a skipped update is 0 already.
        _assign(momentum, tf.where(applied > 0.0, after, before))
        _assign_sub(variable, rate * step)

    def _signed_step(self, variable: Any, gradient: Any, rate: Any) -> None:
        training = self._training
        own_rate = rate * (training.puzzle_learning_rate / training.learning_rate)
        step = tf.sign(gradient) + training.puzzle_weight_decay * variable.read_value()
        is_present = tf.reduce_any(gradient != 0.0, -1, keepdims=True)
        _assign_sub(variable, own_rate * tf.where(is_present, step, 0.0))

    def _average(self, finite: Any) -> None:
        if not self.averages:
            return
        updates = tf.cast(self.iterations.read_value(), tf.float32)
        # Early averages forget faster, or the initial weights would stay in them for long.
        share = 1.0 - tf.minimum(self._training.average_decay, (1.0 + updates) / (10.0 + updates))
        share = share if finite is None else share * tf.cast(finite, tf.float32)
        for weight, average in zip(self.weights, self.averages, strict=True):
            _assign_add(average, share * (weight.value.read_value() - average.read_value()))


def make_optimizer(weights: Sequence[Any], hparams: HParams, seed: int) -> Optimizer:
    """The optimizer that hyperparameters ask for; `seed` decides the noise on the gradient.

    Raises:
      UserError: the vectors of puzzles are to be trained where there are none, or with noise, or
        Muon has no kernel.
    """
    training = hparams.training
    if training.puzzle_optimizer == "signsgd":
        if not any(map(is_puzzle_table, weights)) or not getattr(hparams.network, "num_puzzles", 0):
            raise UserError(
                "puzzle_optimizer=signsgd trains the vectors of puzzles, and this model has none:"
                " set num_puzzles and memory_tokens, or puzzle_optimizer=same."
            )
        if training.gradient_noise:
            raise UserError(
                f"puzzle_optimizer=signsgd leaves puzzles alone whose gradient is 0, which"
                f" gradient_noise={training.gradient_noise:g} makes none: set gradient_noise=0."
            )
    noise = GradientNoise(training.gradient_noise, seed) if training.gradient_noise else None
    return Optimizer(weights, training, hparams.network.hidden_size, noise)


def is_decayed(weight: Any) -> bool:
    """Whether weight decay applies to a Keras variable: to kernels, not to embeddings, biases,
    norms, scales and masks.
    """
    return len(weight.shape) >= 2 and "kernel" in weight.path.rpartition("/")[2]


def is_hidden(weight: Any) -> bool:
    """Whether a Keras variable is a kernel between hidden states, which Muon is for: of a product
    or a convolution, neither that of the logits nor one with a few inputs or outputs (halting), nor
    a depthwise one.
    """
    return (
        is_decayed(weight)
        and min(weight.shape[-2:]) >= _SMALLEST_SIDE
        and "depthwise" not in weight.path
        and weight.path.split("/")[0] not in LOGITS_LAYERS
    )


def is_puzzle_table(weight: Any) -> bool:
    """Whether a Keras variable holds the vectors of a memory: of a model with puzzles, theirs."""
    return bool(weight.path.endswith("memory/vectors"))


def _moment(weight: Any, name: str, kept: bool) -> Any:
    return _zeros_like(weight, name) if kept else _scalar(0.0, tf.float32, f"no_{name}")


def _scalar(value: float, dtype: Any, name: str) -> Any:
    return tf.Variable(value, dtype=dtype, trainable=False, name=name)


def _zeros_like(weight: Any, name: str) -> Any:
    return tf.Variable(tf.zeros(weight.shape, weight.value.dtype), trainable=False, name=name)


def _copy_of(weight: Any) -> Any:
    return tf.Variable(tf.convert_to_tensor(weight.value), trainable=False, name="average")


# In a replica's context the handle is that of the replica's own copy; assigning by it needs no
# aggregation over the replicas, since all of them assign the same value.
def _assign(variable: Any, value: Any) -> None:
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.cast(value, variable.dtype))


def _assign_add(variable: Any, value: Any) -> None:
    tf.raw_ops.AssignAddVariableOp(resource=variable.handle, value=tf.cast(value, variable.dtype))


def _assign_sub(variable: Any, value: Any) -> None:
    tf.raw_ops.AssignSubVariableOp(resource=variable.handle, value=tf.cast(value, variable.dtype))
