"""The plan of a training, measured: the model is built, and one update runs on random symbols.

::

    plan = make_plan(hparams, spec, [BatchShape(64, 40, 40)], BatchShape(64, 40, 40), strategy)
    plan.parameters, plan.seconds, plan.memory

A user's cell or transition is measured as any other. An update that would take long is not run in
full: a smaller batch is, and its time grows with the operations in the graphs of both.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.factories import make_model
from ut_tf.models.bounded import TooLargeError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import make_optimizer
from ut_tf.training.step import TrainingStep

# An update that is expected to take longer is not run: with the graphs of two batches, a plan stays
# below two minutes.
_LONGEST_UPDATE = 25.0
_FLOAT = 4


@dataclass(frozen=True)
class BatchShape:
    """A padded batch of one device.

    Args:
      examples: rows.
      length: positions of the inputs; 0 without inputs.
      target_length: positions of the targets; 0 where an example has one answer.
    """

    examples: int
    length: int
    target_length: int

    @property
    def positions(self) -> int:
        """Padded positions of the longer side."""
        return self.examples * max(self.length, self.target_length, 1)


@dataclass(frozen=True)
class TrainingPlan:
    """What a training takes on this machine.

    Args:
      parameters: of each part of the model.
      flop: of an update: its matrix products.
      seconds: of an update.
      measured: the batch of which `seconds` was measured.
      typical: the batch of which it is.
      largest: the batch that takes the most memory.
      memory: bytes at that batch, on one device; None: the allocator does not count them.
      kept: of these, what is there from the first update to the last: weights, the optimizer's
        moments, averages, sums of gradients.
    """

    parameters: dict[str, int]
    flop: float
    seconds: float
    measured: BatchShape
    typical: BatchShape
    largest: BatchShape
    memory: float | None
    kept: int


class RandomTraining:
    """A newly made model that trains on random symbols.

    Args:
      hparams: resolved.
      spec: of the problem.
      strategy: tf.distribute strategy.
      most_parameters: as of ``make_model``.
    """

    def __init__(
        self, hparams: HParams, spec: ProblemSpec, strategy: Any, most_parameters: int | None = None
    ) -> None:
        self._spec = spec
        self._workers = Workers.of(strategy)
        with strategy.scope():
            self.model = make_model(hparams, spec, 0, most_parameters)
            self.optimizer = make_optimizer(self.model.trainable_variables, hparams, 0)
        signature = {
            name: tf.TensorSpec(self._unknown(name, value.shape), value.dtype)
            for name, value in self.features(BatchShape(1, 2, 2)).items()
        }
        self._step = TrainingStep(self.model, self.optimizer, hparams, self._workers, signature)
        self._accumulated = hparams.training.accumulate_steps

    def graph(self, batch: BatchShape) -> Any:
        """Returns the tf.Graph of an update on a batch of just this shape."""
        features = self.features(batch)
        (carry,) = self._step.start([features])
        function = tf.function(self._step._run_whole, autograph=False)
        return function.get_concrete_function(features, carry).graph

    def update(self, batch: BatchShape) -> Any:
        """Updates the weights by a batch for each replica; waits for the end and returns the
        report.
        """
        batches = [self.features(batch) for _ in range(self._accumulated)]
        return self._step.read([self._step.update(batches)[0]])[0]

    def features(self, batch: BatchShape) -> dict[str, Any]:
        """Returns random features, with one batch for each replica of this process stacked in front
        where there are several replicas.
        """
        spec = self._spec
        shapes: dict[str, tuple[list[int], int]] = {}
        if spec.inputs != "none":
            words = [spec.max_words] if spec.inputs == "facts" else []
            shapes["inputs"] = ([batch.examples, batch.length, *words], spec.input_vocab_size)
        lengths = {"tokens": [batch.target_length], "aligned": [batch.length]}
        positions = lengths.get(spec.targets, [])
        shapes["targets"] = ([batch.examples, *positions], spec.target_vocab_size)
        features = {
            name: tf.random.uniform([*self._front, *shape], min(2, size - 1), size, tf.int32)
            for name, (shape, size) in shapes.items()
        }
        return {**features, "weight": tf.ones([*self._front, batch.examples])}

    @property
    def _front(self) -> list[int]:
        workers = self._workers
        return [] if workers.replicas == 1 else [workers.replicas // workers.count]

    def _unknown(self, name: str, shape: Any) -> list[int | None]:
        """Returns a shape whose lengths are open, but for the words of a fact."""
        sizes: list[int | None] = [*self._front, *[None] * (len(shape) - len(self._front))]
        if name == "inputs" and self._spec.inputs == "facts":
            sizes[-1] = self._spec.max_words
        return sizes


def make_plan(
    hparams: HParams,
    spec: ProblemSpec,
    batches: Sequence[BatchShape],
    largest: BatchShape,
    strategy: Any,
) -> TrainingPlan:
    """Builds the model, runs an update and returns the plan.

    Args:
      hparams: resolved.
      spec: of the problem.
      batches: of one device, a sample of those that training has.
      largest: the one that takes the most memory.
      strategy: on whose devices the update runs.

    Raises:
      UserError: weights, gradients and moments do not fit the free memory of this machine.
    """
    training = hparams.training
    copies = 4 + bool(training.average_decay) + (training.accumulate_steps > 1)
    most = _free_memory() // (copies * _FLOAT)
    try:
        trained = RandomTraining(hparams, spec, strategy, most)
    except TooLargeError:
        raise UserError(
            f"weights, gradients and moments of this model take more than the memory that is free"
            f" here, {most * copies * _FLOAT / 1e9:.1f} GB: lower"
            f" `hidden_size`={getattr(hparams.network, 'hidden_size', None)}."
        ) from None
    mean = sum(batch.positions for batch in batches) / len(batches)
    typical = min(batches, key=lambda batch: abs(batch.positions - mean))
    measured, seconds, flop, memory = _measure(trained, typical)
    kept = _kept(trained, training)
    flops = training.accumulate_steps * flop[1] * mean / typical.positions
    return TrainingPlan(
        parameters=_by_part(trained.model),
        flop=flops,
        seconds=seconds * flop[1] / flop[0] * mean / typical.positions,
        measured=measured,
        typical=typical,
        largest=largest,
        memory=kept + memory * largest.positions / measured.positions if memory else None,
        kept=kept,
    )


def _measure(
    trained: RandomTraining, typical: BatchShape
) -> tuple[BatchShape, float, tuple[float, float], float]:
    """Returns (the batch that was measured; seconds of its update; FLOP of its and of the typical
    batch; bytes of it that are not there between updates).
    """
    small = BatchShape(max(1, typical.examples // 16), typical.length, typical.target_length)
    seconds, memory, steps = _timed(trained, small)
    flop = graph_flop(trained.graph(small), steps)
    whole = flop * typical.examples / small.examples
    # Few examples use the processor badly: as many as there is time for are measured.
    examples = min(typical.examples, int(small.examples * _LONGEST_UPDATE / seconds))
    if examples <= small.examples:
        return small, seconds, (flop, whole), memory
    larger = BatchShape(examples, typical.length, typical.target_length)
    seconds, memory, _ = _timed(trained, larger)
    return larger, seconds, (flop * examples / small.examples, whole), memory


def _timed(trained: RandomTraining, batch: BatchShape) -> tuple[float, float, int]:
    """Returns (seconds of the second update; bytes at its peak beyond those before it; recurrent
    steps that it took).
    """
    report = trained.update(batch)
    device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
    tf.config.experimental.reset_memory_stats(device)
    before = tf.config.experimental.get_memory_info(device)["current"]
    begun = time.perf_counter()
    report = trained.update(batch)
    seconds = time.perf_counter() - begun
    peak = tf.config.experimental.get_memory_info(device)["peak"]
    taken = [steps for steps, count in enumerate(report.ponder_histogram) if count]
    return seconds, peak - before, max(taken, default=1)


def graph_flop(graph: Any, steps: int) -> float:
    """Returns the FLOP of the matrix products in a graph and in the functions that it calls.

    Args:
      graph: tf.Graph, of known shapes.
      steps: how often the bodies of loops run.
    """
    total = 0.0
    for operation in graph.get_operations():
        kind = operation.type
        if kind in ("MatMul", "BatchMatMul", "BatchMatMulV2"):
            name = "transpose_a" if kind == "MatMul" else "adj_x"
            inner = operation.inputs[0].shape[-2 if operation.get_attr(name) else -1]
            result = operation.outputs[0].shape.num_elements()
            # Rows of active positions are not known before.
            total += 2.0 * (result or 0) * (inner or 0)
        elif kind in ("PartitionedCall", "StatefulPartitionedCall"):
            total += graph_flop(graph._get_function(operation.get_attr("f").name).graph, steps)
        elif kind in ("While", "StatelessWhile"):
            body = graph._get_function(operation.get_attr("body").name).graph
            total += steps * graph_flop(body, steps)
    return total


def largest_batch(
    training: TrainingConfig, spec: ProblemSpec, length: int | None = None
) -> BatchShape:
    """Returns the batch of one device whose examples are all as long as `length`; None:
    max_length.
    """
    length = training.max_length if length is None else length
    examples = training.batch_size
    if training.batch_unit == "tokens":
        examples = max(1, training.batch_size // length)
    return batch_of(examples, length, spec)


def batch_of(examples: int, length: int, spec: ProblemSpec) -> BatchShape:
    """Returns a batch whose inputs and targets, if there are any, are `length` long."""
    return BatchShape(
        examples,
        0 if spec.inputs == "none" else length,
        length if spec.targets == "tokens" else 0,
    )


def _by_part(model: Any) -> dict[str, int]:
    parts: dict[str, int] = {}
    for weight in model.trainable_variables:
        name = weight.path.split("/")[0]
        parts[name] = parts.get(name, 0) + int(weight.shape.num_elements() or 1)
    return parts


def _kept(trained: RandomTraining, training: TrainingConfig) -> int:
    weights = sum(_by_part(trained.model).values())
    slots = tf.nest.flatten([trained.optimizer.state(), trained.optimizer.averages])
    numbers = weights + sum(int(tf.size(slot)) for slot in slots)
    return _FLOAT * (numbers + (weights if training.accumulate_steps > 1 else 0))


def _free_memory() -> int:
    """Returns the bytes that this machine has free, or could free."""
    try:
        # What holds files for later reading counts as free here, and not in os.sysconf.
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    if found is not None:
        return 1024 * int(found[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
