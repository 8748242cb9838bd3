"""The plan of a training, measured: the model is built, and one update runs on random symbols.

::

    plan = make_plan(hparams, spec, [BatchShape(64, 40, 40)], BatchShape(64, 40, 40), strategy)
    plan.parameters, plan.seconds, plan.memory

A user's cell or transition is measured as any other. An update that would take long is not run in
full: a smaller batch is, and its time grows with the operations in the graphs of both. Where depth
is drawn, operations and time are those of the mean depth; under dynamic halting the operations are
those of all steps, and the time is that of a new model, whose positions halt as they do.
"""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.config.hparams import HParams
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.factories import make_model
from ut_tf.models.bounded import TooLargeError
from ut_tf.models.graph_flop import LoopSteps, computing_all, graph_flop, loop_bound, loops_of
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.distribution import Workers
from ut_tf.training.objective import Objective
from ut_tf.training.optimizer import make_optimizer
from ut_tf.training.step import TrainingStep

# An update that is expected to take longer is not run: with the graphs of two batches, a plan stays
# below two minutes.
_LONGEST_UPDATE = 25.0
_FLOAT = 4
# Of the depth of an update, where it is drawn.
_DRAWS = 2048


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
      flop: of an update: its matrix products and convolutions, at the mean of a drawn depth and
        with all steps of dynamic halting.
      seconds: of an update.
      measured: the batch of which `seconds` was measured.
      typical: the batch of which it is.
      largest: the batch that takes the most memory.
      memory: bytes at that batch, on one device; None: the allocator does not count them.
      kept: of these, what is there from the first update to the last: weights, the optimizer's
        moments, averages, sums of gradients.
      halts: whether positions may take fewer steps than `flop` counts.
    """

    parameters: dict[str, int]
    flop: float
    seconds: float
    measured: BatchShape
    typical: BatchShape
    largest: BatchShape
    memory: float | None
    kept: int
    halts: bool


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
        # Operations are counted of batches whose shape is known.
        whole = hparams.change(parallel_parts=1)
        self._step = TrainingStep(self.model, self.optimizer, whole, self._workers, signature)
        self._accumulated = hparams.training.accumulate_steps
        self._draw = _drawn_steps(
            self.model, self._step.objective, self.features(BatchShape(1, 2, 2))
        )

    def graph(self, batch: BatchShape) -> tuple[Any, LoopSteps]:
        """Returns the tf.Graph of an update on a batch of just this shape, in which no step leaves
        positions out, and the steps of its loops, at the mean of a drawn depth. Where the graph
        does not bound them, an update counts them.
        """
        features = self.features(batch)
        (carry,) = self._step.start([features])
        function = tf.function(self._counted, autograph=False)
        with computing_all(self.model):
            counted = function.get_concrete_function(features, carry)
        if self._draw is not None:
            return counted.graph, LoopSteps(*self._draw(range(1, _DRAWS + 1)))
        if all(map(loop_bound, loops_of(counted.graph))):
            return counted.graph, LoopSteps()
        taken = {name: int(count) for name, count in function(features, carry).items()}
        return counted.graph, LoopSteps(taken=taken)

    def drawn_steps(self) -> LoopSteps | None:
        """Returns the steps of the update before, where they were drawn."""
        return self._draw and LoopSteps(*self._draw([int(self.optimizer.iterations)]))

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

    def _counted(self, features: Any, carry: Any) -> dict[str, Any]:
        """Updates the weights; returns how often each loop without a bound has run its body, int32
        [].
        """
        self._step._run_whole(features, carry)
        loops = loops_of(tf.compat.v1.get_default_graph())
        return {loop.name: loop.outputs[0] for loop in loops if loop_bound(loop) is None}

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
        halts=trained.model.ponder_weight is not None,
    )


def _measure(
    trained: RandomTraining, typical: BatchShape
) -> tuple[BatchShape, float, tuple[float, float], float]:
    """Returns (the batch that was measured; seconds of its update; FLOP of its and of the typical
    batch; bytes of it that are not there between updates).
    """
    small = BatchShape(max(1, typical.examples // 16), typical.length, typical.target_length)
    graph, steps = trained.graph(small)
    flop = graph_flop(graph, steps)

    def timed(batch: BatchShape) -> tuple[float, float]:
        seconds, memory = _timed(trained, batch)
        drawn = trained.drawn_steps()
        return seconds if drawn is None else seconds * flop / graph_flop(graph, drawn), memory

    seconds, memory = timed(small)
    whole = flop * typical.examples / small.examples
    # Few examples use the processor badly: as many as there is time for are measured.
    examples = min(typical.examples, int(small.examples * _LONGEST_UPDATE / seconds))
    if examples <= small.examples:
        return small, seconds, (flop, whole), memory
    larger = BatchShape(examples, typical.length, typical.target_length)
    seconds, memory = timed(larger)
    return larger, seconds, (flop * examples / small.examples, whole), memory


def _timed(trained: RandomTraining, batch: BatchShape) -> tuple[float, float]:
    """Returns (seconds of the second update; bytes at its peak beyond those before it, 0 where the
    allocator does not count them).
    """
    trained.update(batch)
    device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
    before = _counted_from_here(device)
    begun = time.perf_counter()
    trained.update(batch)
    seconds = time.perf_counter() - begun
    if before is None:
        return seconds, 0.0
    return seconds, tf.config.experimental.get_memory_info(device)["peak"] - before


def _counted_from_here(device: str) -> int | None:
    """Returns the bytes in use, from which on a new peak counts; None: the allocator counts none,
    as that of a processor without oneDNN.
    """
    try:
        tf.config.experimental.reset_memory_stats(device)
    except ValueError:
        return None
    return int(tf.config.experimental.get_memory_info(device)["current"])


def _drawn_steps(
    model: Any, objective: Objective, features: dict[str, Any]
) -> Callable[[Sequence[int]], tuple[float, float]] | None:
    """Returns the function that gives the steps which updates, by their numbers, draw in the mean:
    with gradient and before it; None: nothing is drawn.
    """
    depths = (getattr(layer, "train_depth", None) for layer in model._flatten_layers())
    depth = next((depth for depth in depths if depth is not None), None)

    def draw(number: Any) -> Any:
        seed = tf.stack([tf.constant(0, tf.int64), number])
        if depth is not None:
            return tf.stack(depth.draw(seed))
        answers = objective.answers_of({**features, "update": seed})
        drawn = [each.features["drawn_steps"] for each in answers if "drawn_steps" in each.features]
        return drawn[0] if drawn else None

    def mean(numbers: Sequence[int]) -> tuple[float, float]:
        given = tf.constant(list(numbers), tf.int64)
        drawn = tf.function(lambda: tf.map_fn(draw, given, fn_output_signature=tf.int32))()
        without, with_gradient = drawn.numpy().mean(0)
        return float(with_gradient), float(without)

    return None if draw(tf.constant(1, tf.int64)) is None else mean


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
        examples, 0 if spec.inputs == "none" else length, length if spec.targets == "tokens" else 0
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
