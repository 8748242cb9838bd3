"""The floating-point operations of an update: its matrix products.

A product of [m, k] with [k, n] takes 2 m k n FLOP. The backward pass has two products for each one
of the forward pass, so an update takes three times the forward pass. Everything else (norms,
dropout, softmax) is not counted: it moves memory and hardly computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ut_tf.planning.sizes import Sizes, Stack

_GATED = {"gru": 3 * 2, "lstm": 4 * 2}


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


def update_flop(sizes: Sizes, batch: BatchShape, steps: float | None = None) -> float:
    """FLOP of the forward and the backward pass of one batch.

    Args:
      sizes: of the model.
      batch: padding counts.
      steps: mean recurrent steps of a position, under dynamic halting; None: the most.
    """
    spec, width = sizes.spec, sizes.network.hidden_size
    products, memory = 0.0, 0
    if sizes.encoder is not None:
        products += _stack(sizes, sizes.encoder, batch.examples, batch.length, 0, steps)
        memory = batch.length
    if sizes.decoder is not None:
        length = batch.target_length
        products += _stack(sizes, sizes.decoder, batch.examples, length, memory, steps)
    answers = batch.examples
    if sizes.decoder is not None:
        answers *= batch.target_length
    elif spec.targets == "aligned":
        answers *= batch.length
    if spec.targets == "word":
        products += batch.examples * (batch.length + 1) * width**2
    else:
        products += answers * width * spec.target_vocab_size
    return float(3 * 2 * products)


def _stack(
    sizes: Sizes, stack: Stack, examples: int, length: int, memory: int, steps: float | None
) -> float:
    network = sizes.network
    layer = _block(network, length, memory, transition=True)
    products = examples * length * stack.layers * layer
    repeated = stack.steps if steps is None else min(steps, stack.steps)
    if stack.shared:
        gated = _GATED.get(network.recurrence, 0)
        block = _block(network, length, memory, transition=not gated)
        step = stack.shared * block + _cell(network)
        products += examples * length * repeated * step
        products += repeated * _coordinates(network, examples, length)
        products += examples * length * _recurrent_layer(network, stack)
    # Keys and values of the encoder's states: 2 d a each position, once for all steps.
    projections = (stack.layers + stack.shared) * 2 * network.hidden_size * network.width_of_heads
    return float(products + examples * memory * projections)


def _block(network: Any, keys: int, memory: int, transition: bool) -> float:
    """The multiplications of a block at one position.

    With d = hidden_size, f = filter_size and a the width of all heads (d, unless head_size is set):
    4 d a for the projections of self-attention and 2 K a for logits and mixture over K keys; 2 d a
    + 2 M a for attention over M positions of an encoder, whose keys and values are counted with the
    stack; 2 d f for the transition.
    """
    width, inner = network.hidden_size, network.width_of_heads
    products = 4 * width * inner + 2 * keys * inner
    if memory:
        products += 2 * width * inner + 2 * memory * inner
    return float(products + (2 * width * network.filter_size if transition else 0))


def _cell(network: Any) -> float:
    """3 d² for each gate of highway and skip, 2 d² for each of gru and lstm."""
    width = network.hidden_size
    if network.recurrence in ("highway", "skip"):
        return float(3 * width**2 * (1 if network.couple_carry_transform_gates else 2))
    return float(_GATED.get(network.recurrence, 0) * width**2)


def _coordinates(network: Any, examples: int, length: int) -> float:
    """Concatenated coordinates are projected at each step: d² for each state and each of the
    positions, which all examples share, and 2 d² for the step.
    """
    if network.coordinate_form == "add":
        return 0.0
    of_step = 0 if network.step_encoding == "none" else 2
    return float(((examples + 1) * length + of_step) * network.hidden_size**2)


def _recurrent_layer(network: Any, stack: Stack) -> float:
    kind, width = network.recurrent_layer, network.hidden_size
    if kind == "none":
        return 0.0
    units = width if stack.causal else width // 2
    gates = {"gru": 3, "lstm": 4}[kind]
    return float(gates * (width + units) * width)
