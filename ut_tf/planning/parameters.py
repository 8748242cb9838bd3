"""The number of a model's parameters, part by part; it is exact.

Below, d is hidden_size, f filter_size and h num_heads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ut_tf.planning.sizes import CONDITIONAL, Sizes, Stack

_GATES = {"gru": 3, "lstm": 4}


def count_parameters(sizes: Sizes) -> int:
    """The parameters of all parts together."""
    return sum(parameters_by_part(sizes).values())


def parameters_by_part(sizes: Sizes) -> dict[str, int]:
    """The parameters of "embeddings", "encoder", "decoder" and "head"."""
    parts = {"embeddings": _embeddings(sizes)}
    for name, stack in (("encoder", sizes.encoder), ("decoder", sizes.decoder)):
        if stack is not None:
            parts[name] = _stack(sizes, stack)
    return {**parts, "head": _head(sizes)}


def block_parameters(sizes: Sizes, stack: Stack, is_shared: bool) -> int:
    """The parameters of one block.

    Attention has 4 d a (query, key, value, output) with a the width of all heads, which is d unless
    head_size is set; with attention_bias 3 a + d more, and in self-attention with relative_bias r
    another (2 r + 1) h. A layer norm of 2 d stands behind
    (pre-norm: before) each sublayer.

    Args:
      sizes: of the model.
      stack: which the block is of.
      is_shared: whether a recurrence repeats it; if not it is a layer that runs once.
    """
    network = sizes.network
    width: int = network.hidden_size
    inner = network.width_of_heads
    projections = 4 * width * inner + (3 * inner + width if network.attention_bias else 0)
    relative = (2 * network.relative_bias + 1) * network.num_heads if network.relative_bias else 0
    total: int = projections + relative + 2 * width
    if stack.with_memory:
        total += projections + 2 * width
    if is_shared and network.recurrence in _GATES:
        return total
    copies = stack.table_steps if is_shared and sizes.model == CONDITIONAL else 1
    return total + copies * _transition(network) + 2 * width


def _transition(network: Any) -> int:
    """fc: 2 d f + f + d; sepconv has kernels of 3 d and 5 f besides."""
    width: int = network.hidden_size
    inner: int = network.filter_size
    affine = 2 * width * inner + inner + width
    return affine + (3 * width + 5 * inner if network.transition == "sepconv" else 0)


def _stack(sizes: Sizes, stack: Stack) -> int:
    network = sizes.network
    total = 2 * network.hidden_size if network.norm == "pre" else 0
    total += stack.layers * block_parameters(sizes, stack, is_shared=False)
    if not stack.shared:
        return total
    total += stack.shared * block_parameters(sizes, stack, is_shared=True)
    total += _CELLS[network.recurrence](network, stack) + _halting(network)
    total += _coordinates(network, stack)
    return total + _recurrent_layer(network, stack)


def _coordinates(network: Any, stack: Stack) -> int:
    """A row of d for each learned step. Concatenated coordinates have rows of 2 d, and a kernel
    that projects states, positions and steps to d.
    """
    width, concatenates = network.hidden_size, network.coordinate_form == "concat"
    step_width = 2 * width if concatenates else width
    total = stack.table_steps * step_width if network.step_encoding == "learned" else 0
    if concatenates:
        total += (2 * width + (0 if network.step_encoding == "none" else step_width)) * width
    return int(total)


def _no_cell(network: Any, stack: Stack) -> int:
    del network, stack
    return 0


def _highway(network: Any, stack: Stack) -> int:
    """Three norms, and one gate or two of 3 d² + d."""
    del stack
    width, gates = network.hidden_size, 1 if network.couple_carry_transform_gates else 2
    return int(3 * 2 * width + gates * (3 * width**2 + width))


def _dwa(network: Any, stack: Stack) -> int:
    """d for each step, and d that score them."""
    return int((stack.table_steps + 1) * network.hidden_size)


def _gated(network: Any, stack: Stack) -> int:
    """Two norms, and three or four gates of 2 d² + d."""
    del stack
    width = network.hidden_size
    return int(2 * 2 * width + _GATES[network.recurrence] * (2 * width**2 + width))


_CELLS: dict[str, Callable[[Any, Stack], int]] = {
    "basic": _no_cell,
    "highway": _highway,
    "skip": _highway,
    "dwa": _dwa,
    "gru": _gated,
    "lstm": _gated,
}


def _halting(network: Any) -> int:
    """The halting unit, d + 1; random halting has none."""
    return 0 if network.halting in ("none", "random") else int(network.hidden_size + 1)


def _recurrent_layer(network: Any, stack: Stack) -> int:
    """A Keras GRU or LSTM (both ways in an encoder, half of the width each) and its norm."""
    kind, width = network.recurrent_layer, network.hidden_size
    if kind == "none":
        return 0
    directions = 1 if stack.causal else 2
    units = width // directions
    # A GRU has two biases, an LSTM one.
    each = {"gru": 3 * (width + units + 2), "lstm": 4 * (width + units + 1)}[kind] * units
    return int(directions * each + 2 * width)


def _embeddings(sizes: Sizes) -> int:
    network, spec = sizes.network, sizes.spec
    width, total = network.hidden_size, 0
    if sizes.encoder is not None:
        total += spec.input_vocab_size * width
        total += 2 * spec.max_words * width if spec.inputs == "facts" else 0
        total += width * (bool(network.input_start_symbol) + bool(network.target_space_embedding))
    if sizes.decoder is not None:
        total += 0 if sizes.shares_table else spec.target_vocab_size * width
        learns_start = network.target_start == "learned" and network.position in ("rotary", "none")
        total += width if learns_start else 0
    total += (network.learned_positions + 1) * width if network.position == "learned" else 0
    return int(total)


def _head(sizes: Sizes) -> int:
    width, size = sizes.network.hidden_size, sizes.spec.target_vocab_size
    if sizes.decoder is not None:
        return 0 if sizes.network.shared_embedding else int(width * size)
    return int(2 * width**2 if sizes.spec.targets == "word" else width * size + size)
