"""The plan of a training: what it needs, on which GPU, for how long and at what cost.

::

    plan = make_plan(hparams, spec, [BatchShape(64, 40, 40)], BatchShape(64, 40, 40), Setting())
    plan.parameters, plan.flop, plan.memory.peak
    for row in plan.rows: row.gpu.name, row.hours, row.cost

Nothing here needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ut_tf.config.hparams import HParams
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.planning.accelerators import ACCELERATORS, Accelerator
from ut_tf.planning.communication import Network, seconds_per_update
from ut_tf.planning.memory import Memory, training_memory
from ut_tf.planning.operations import BatchShape, update_flop
from ut_tf.planning.parameters import parameters_by_part
from ut_tf.planning.sizes import Sizes
from ut_tf.problem_spec import ProblemSpec

# CUDA's context, libraries and what the allocator cannot use.
_RESERVED = 0.08


@dataclass(frozen=True)
class Setting:
    """Where the training would run, and what is assumed of it.

    Args:
      gpus: to be compared.
      devices: how many of them train together.
      utilisation: share of the peak that the products reach.
      price: US dollars for one GPU an hour, in the place of the table's; None: the table's.
      steps: mean recurrent steps of a position under dynamic halting; None: the most.
      network: what joins the devices.
    """

    gpus: tuple[Accelerator, ...] = tuple(ACCELERATORS.values())
    devices: int = 1
    utilisation: float = 0.25
    price: float | None = None
    steps: float | None = None
    network: Network = field(default_factory=Network)


@dataclass(frozen=True)
class Row:
    """The training on one kind of GPU.

    Args:
      gpu: which.
      fits: whether the memory is enough.
      hours: of all updates.
      communication: share of them in which gradients are added up.
      cost: US dollars for all devices; None: no price is known.
    """

    gpu: Accelerator
    fits: bool
    hours: float
    communication: float
    cost: float | None


@dataclass(frozen=True)
class Plan:
    """What a training needs.

    Args:
      parameters: by part of the model.
      flop: of an update on one device.
      positions: padded positions of an update on all devices; examples for one answer each.
      largest: the batch that takes the most memory.
      memory: on each device, at that batch.
      updates: in all.
      rows: by GPU.
    """

    parameters: dict[str, int]
    flop: float
    positions: float
    largest: BatchShape
    memory: Memory
    updates: int
    rows: list[Row]


def largest_batch(
    training: TrainingConfig, spec: ProblemSpec, length: int | None = None
) -> BatchShape:
    """The batch of one device whose examples are all as long as `length`; None: max_length."""
    length = training.max_length if length is None else length
    examples = training.batch_size
    if training.batch_unit == "tokens":
        examples = max(1, training.batch_size // length)
    return batch_of(examples, length, spec)


def batch_of(examples: int, length: int, spec: ProblemSpec) -> BatchShape:
    """A batch in which inputs and targets, those that there are, are `length` long."""
    return BatchShape(
        examples,
        0 if spec.inputs == "none" else length,
        length if spec.targets == "tokens" else 0,
    )


def make_plan(
    hparams: HParams,
    spec: ProblemSpec,
    batches: Sequence[BatchShape],
    largest: BatchShape,
    setting: Setting,
    updates: int | None = None,
) -> Plan:
    """Plans a training.

    Args:
      hparams: resolved.
      spec: of the problem.
      batches: of one device, a sample of those that training has.
      largest: the one that takes the most memory.
      setting: where it would run.
      updates: in all; None: what the hyperparameters say.

    Raises:
      UserError: the model is not known, steps are given for a fixed depth, or the training fits
        none of the GPUs; names what to lower.
    """
    training = hparams.training
    sizes = Sizes.of(hparams.model, hparams.network, spec)
    if setting.steps is not None and not sizes.halts:
        raise UserError(
            f"`steps`={setting.steps:g} is a mean depth under dynamic halting, and the depth of"
            " this model is fixed: leave `steps` out."
        )
    parameters = parameters_by_part(sizes)
    accumulated = training.accumulate_steps
    flop = accumulated * _mean([update_flop(sizes, batch, setting.steps) for batch in batches])
    positions = accumulated * _mean(
        [batch.examples * max(batch.length, batch.target_length, 1) for batch in batches]
    )
    memory = training_memory(sizes, training, largest)
    updates = training.train_steps if updates is None else updates
    total = sum(parameters.values())
    rows = [_row(gpu, setting, training, flop, total, memory, updates) for gpu in setting.gpus]
    if not any(row.fits for row in rows):
        raise UserError(_too_large(sizes, training, largest, memory, setting))
    return Plan(parameters, flop, setting.devices * positions, largest, memory, updates, rows)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def usable(gpu: Accelerator) -> float:
    """The bytes of a GPU that tensors can have."""
    return (1 - _RESERVED) * gpu.memory


def _row(
    gpu: Accelerator,
    setting: Setting,
    training: TrainingConfig,
    flop: float,
    parameters: int,
    memory: Memory,
    updates: int,
) -> Row:
    products = flop / (setting.utilisation * gpu.peak(training.dtype_policy))
    sums = seconds_per_update(parameters, setting.devices, setting.network)
    hours = updates * (products + sums) / 3600
    price = gpu.price if setting.price is None else setting.price
    cost = None if price is None else hours * setting.devices * price
    return Row(gpu, memory.peak <= usable(gpu), hours, sums / (products + sums), cost)


def _too_large(
    sizes: Sizes, training: TrainingConfig, largest: BatchShape, memory: Memory, setting: Setting
) -> str:
    """The sentence that says by how much, and what to lower."""
    gpu = max(setting.gpus, key=usable)
    room = usable(gpu)
    begin = (
        f"the training needs {memory.peak / 1e9:.1f} GB on each device, and {gpu.name} has"
        f" {room / 1e9:.1f} GB for tensors"
    )
    if memory.kept + memory.gradients > room:
        width = sizes.network.hidden_size
        return (
            f"{begin}, of which weights, gradients and moments alone take"
            f" {(memory.kept + memory.gradients) / 1e9:.1f} GB: lower `hidden_size`={width}."
        )
    length = max(largest.length, largest.target_length)
    fitting = _fitting_examples(sizes, training, largest, room)
    if fitting == 0:
        return (
            f"{begin}, which one example of {length} positions exceeds: lower"
            f" `max_length`={training.max_length}."
        )
    size = fitting * (length if training.batch_unit == "tokens" else 1)
    return (
        f"{begin}: lower `batch_size`={training.batch_size} to {size} (and raise"
        f" `accumulate_steps` to keep the update), or `max_length`={training.max_length}."
    )


def _fitting_examples(
    sizes: Sizes, training: TrainingConfig, largest: BatchShape, room: float
) -> int:
    """How many examples of the largest batch would fit."""
    one, two = (
        training_memory(sizes, training, BatchShape(count, largest.length, largest.target_length))
        for count in (1, 2)
    )
    first, second = (memory.activations + memory.logits for memory in (one, two))
    fixed = one.kept + first - (second - first)
    return max(0, int((room - fixed) // (second - first)))
