"""The memory that training takes on one device, at its peak.

Kept for the whole training, 4 bytes a parameter each: weights, two moments of Adam, the average of
the weights (average_decay), sums of gradients (accumulate_steps). Over these comes the larger of

- the end of the forward pass: what the backward pass will read, and the head's logits;
- the end of the backward pass: a gradient for each step of a recurrence, before they are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ut_tf.config.training import TrainingConfig
from ut_tf.planning.operations import BatchShape
from ut_tf.planning.parameters import block_parameters, count_parameters, parameters_by_part
from ut_tf.planning.sizes import Sizes, Stack

_FLOAT = 4
# Logits, their softmax for the gradient, and what is in between; with smoothed labels one more.
_LOGITS = 3
# Steps that are no loop run ahead in the backward pass: the gradients of states do not wait for
# those of weights, so that what these read is held longer. This share of it, and the copies of the
# logits, were fitted to four trainings on a CPU, of other shapes than those of benchmarks/plan.py.
_AHEAD = 0.3
# What a dynamic halting form keeps at each step beside the block's: output, weighted state, state.
_HALTING = 3


@dataclass(frozen=True)
class Memory:
    """Bytes on one device.

    Args:
      weights: the parameters.
      moments: Adam's; an upper bound with Muon, which keeps one for each hidden kernel.
      averages: of the weights.
      sums: of gradients of accumulated batches.
      activations: what the backward pass reads.
      logits: of the head, with their gradient.
      gradients: at the end of the backward pass.
    """

    weights: int
    moments: int
    averages: int
    sums: int
    activations: int
    logits: int
    gradients: int

    @property
    def kept(self) -> int:
        """What is there from the first update to the last."""
        return self.weights + self.moments + self.averages + self.sums

    @property
    def peak(self) -> int:
        """The most at any time of an update."""
        return self.kept + max(self.activations + self.logits, self.gradients)


def training_memory(sizes: Sizes, training: TrainingConfig, batch: BatchShape) -> Memory:
    """The memory of an update.

    Args:
      sizes: of the model.
      training: resolved.
      batch: the largest of one device.
    """
    weights = _FLOAT * count_parameters(sizes)
    compute = 4 if training.dtype_policy == "float32" else 2
    activations, memory = 0, 0
    if sizes.encoder is not None:
        shape = (batch.examples, batch.length, 0)
        activations += _stack(sizes, sizes.encoder, shape, compute)
        memory = batch.length
    if sizes.decoder is not None:
        shape = (batch.examples, batch.target_length, memory)
        activations += _stack(sizes, sizes.decoder, shape, compute)
    return Memory(
        weights=weights,
        moments=2 * weights,
        averages=weights if training.average_decay else 0,
        sums=weights if training.accumulate_steps > 1 else 0,
        activations=activations,
        logits=_logits(sizes, batch, _LOGITS + bool(training.label_smoothing)),
        gradients=_gradients(sizes),
    )


def _stack(sizes: Sizes, stack: Stack, shape: tuple[int, int, int], compute: int) -> int:
    """The activations of a stack on `shape`: examples, positions, positions of the memory."""
    examples, length, memory = shape
    network = sizes.network
    width = network.hidden_size
    ahead = 1.0 if sizes.halts else 1.0 + _AHEAD
    layer = _block(network, shape, compute, transition=True, ahead=1.0 + _AHEAD)
    kept = stack.layers * layer + 2 * width * compute
    if stack.shared:
        gates = {"gru": 3, "lstm": 4}.get(network.recurrence, 0)
        step = stack.shared * _block(network, shape, compute, not gates, ahead)
        step += _cell(network, compute, gates)
        step += _HALTING * width * _FLOAT if sizes.halts else 0
        kept += stack.steps * step
    projections = (stack.layers + stack.shared) * 2 * network.width_of_heads * compute
    return int(examples * (length * kept + memory * projections))


def _block(
    network: Any, shape: tuple[int, int, int], compute: int, transition: bool, ahead: float
) -> float:
    """The bytes that the backward pass reads of a block at one position.

    With c the bytes of a number in the compute dtype (float32 4, otherwise 2), K keys and h heads,
    a wide together: the input, queries, keys, values and mixture of an attention, (d + 4 a) c (over
    a memory (d + 2 a) c); its weights, before and after dropout, and the dropout's mask, h K (4 + c
    + 1); the input of the transition and its inner layer, (d + f) c, of sepconv with what each
    convolution reads and gives, (2 d + 3 f) c; behind each sublayer the normalised sum in float32,
    4 d, and the mask of its dropout, d.
    """
    _, length, memory = shape
    width, heads, together = network.hidden_size, network.num_heads, network.width_of_heads
    mask = 1 if network.dropout else 0
    dropped = compute + 1 if network.attention_dropout else 0
    end = _FLOAT * width + mask * width
    numbers, keys = (width + 4 * together) * compute + end, length
    if memory:
        numbers, keys = numbers + (width + 2 * together) * compute + end, length + memory
    if transition:
        inner = network.filter_size
        is_fc = network.transition == "fc"
        numbers += (width + inner if is_fc else 2 * width + 3 * inner) * compute + end
    return float(numbers * ahead + heads * keys * (_FLOAT + dropped))


def _cell(network: Any, compute: int, gates: int) -> float:
    """Of gates: what they read and what they gave; of highway also three normalised inputs."""
    width = network.hidden_size
    if gates:
        return float(width * ((4 + 2 * gates) * compute + 2 * _FLOAT))
    if network.recurrence in ("highway", "skip"):
        return float(width * (6 * compute + 3 * _FLOAT))
    return 0.0 if network.recurrence == "basic" else float(width * 2 * _FLOAT)


def _logits(sizes: Sizes, batch: BatchShape, copies: int) -> int:
    positions = batch.examples
    if sizes.decoder is not None:
        positions *= batch.target_length
    elif sizes.spec.targets == "aligned":
        positions *= batch.length
    steps = sizes.stacks[-1].steps if _answers_every_step(sizes) else 1
    table = sizes.spec.target_vocab_size * sizes.network.hidden_size if sizes.decoder else 0
    numbers = positions * sizes.spec.target_vocab_size * copies * steps + table
    return int(_FLOAT * numbers)


def _answers_every_step(sizes: Sizes) -> bool:
    return sizes.is_recurrent and sizes.network.halting == "pondernet"


def _gradients(sizes: Sizes) -> int:
    parts = parameters_by_part(sizes)
    total = sum(parts.values())
    for stack in sizes.stacks:
        if stack.shared:
            block = block_parameters(sizes, stack, is_shared=True)
            # A transition for each step has one gradient; all else has one from each step.
            total += (stack.steps - 1) * stack.shared * block
    return _FLOAT * total
