"""Memory: learned vectors in front of a sequence, and the stacks of layers that read and write them
(Burtsev et al., arXiv 2006.11527).

::

    stack = MemoryStack(MemoryVectors(10, 128), layer_stack)
    given = StackInputs(mask, signal, BlockContext(bias=padding_bias(mask)))
    states, details = stack(inputs, given=given)

Memory has no position: nothing is added to it, and rotary attention does not turn it. It does not
count as length either: the logit scale of an encoder or a language model is that of the symbols.
A decoder that attends over memory and symbols counts both.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ut_tf.errors import marked
from ut_tf.layers.attention_weights import causal_bias
from ut_tf.layers.block import Block, BlockContext, Rotation
from ut_tf.layers.composite import Composite, build_parts, kept_parts
from ut_tf.layers.contracts import PositionInputs, StackInputs
from ut_tf.layers.coordinates import ROTARY_BASE, add_signal, rotation_table
from ut_tf.layers.key_value_cache import CachePosition
from ut_tf.layers.recurrence_details import Observer, RecurrenceDetails, StepView, details_of_layers


def prepend(tensor: Any, size: int, value: float, axis: int) -> Any:
    """The tensor with `size` entries of `value` before its own, along `axis`; None: None."""
    if tensor is None:
        return None
    return tf.pad(
        tensor,
        [[size if number == axis else 0, 0] for number in range(tensor.shape.rank)],
        constant_values=value,
    )


def prepend_positions(
    rotation: Rotation | None, size: int, base: float = ROTARY_BASE
) -> Rotation | None:
    """The rotation of `size` memory vectors, whose positions are those before the first symbol's
    (which is 1), and of the symbols behind.
    """
    if rotation is None:
        return None
    positions = tf.range(1 - size, 1, dtype=tf.float32)[None]
    before = rotation_table(positions, 2 * rotation[0].shape[-1], base)
    cosines, sines = (
        tf.concat([own + tf.zeros_like(symbols[:, :, :1]), symbols], 2)
        for own, symbols in zip(before, rotation, strict=True)
    )
    return cosines, sines


def prepend_identity(rotation: Rotation | None, size: int) -> Rotation | None:
    """The rotation of `size` memory vectors, which are not turned, and of the symbols behind."""
    if rotation is None:
        return None
    return prepend(rotation[0], size, 1.0, 2), prepend(rotation[1], size, 0.0, 2)


@keras.saving.register_keras_serializable("ut_tf")
class MemoryVectors(keras.layers.Layer):  # type: ignore[misc]
    """The learned vectors, as large as embedded symbols.

    Args:
      memory_size: number of learned vectors.
      hidden_size: width of a vector.
      eval_memory_size: number of vectors at evaluation; 0: as in training.

    At evaluation there may be fewer, the first of them, or more: vector i of m trained ones is then
    that of i modulo m, so that in an encoder r copies of a vector go on being alike and have ln r
    more attention than one.
    """

    def __init__(
        self, memory_size: int, hidden_size: int, eval_memory_size: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.memory_size = memory_size
        self.hidden_size = hidden_size
        self.eval_memory_size = eval_memory_size

    def size(self, training: bool) -> int:
        """The number of memory vectors in training, or at evaluation."""
        trained = training or not self.eval_memory_size
        return self.memory_size if trained else self.eval_memory_size

    def build(self, input_shape: Any) -> None:
        shape = (self.memory_size, self.hidden_size)
        normal = keras.initializers.RandomNormal(stddev=1.0)
        self.vectors = self.add_weight(
            shape=shape, initializer=normal, name="vectors", autocast=False
        )

    def call(self, batch_size: Any, training: bool = False, puzzles: Any = None) -> Any:
        """Returns [batch_size, memory size, hidden_size]; `puzzles` are those of
        ``PuzzleVectors``.
        """
        return tf.tile(self.prepare(training)[None], [batch_size, 1, 1])

    def prepare(self, training: bool = False) -> Any:
        """Returns [memory size, hidden_size], cast once for a loop."""
        size = self.size(training)
        vectors = tf.cast(self.vectors, self.compute_dtype)
        repeats = -(-size // self.memory_size)
        return (vectors if repeats == 1 else tf.tile(vectors, [repeats, 1]))[:size]


@keras.saving.register_keras_serializable("ut_tf")
class PuzzleVectors(MemoryVectors):
    """Memory with a learned vector for each puzzle, as in HRM and TRM: its numbers, and zeros
    behind them, are those of the memory vectors one after the other. It starts at zero.

    Args:
      memory_size, hidden_size: of the memory.
      puzzles: number of puzzles.
      puzzle_size: numbers of a puzzle's vector; at most memory_size * hidden_size.
      scale: constant factor on them.
    """

    def __init__(
        self,
        memory_size: int,
        hidden_size: int,
        puzzles: int,
        puzzle_size: int,
        scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(memory_size, hidden_size, **kwargs)
        self.puzzles = puzzles
        self.puzzle_size = puzzle_size
        self.scale = scale

    def build(self, input_shape: Any) -> None:
        self.vectors = self.add_weight(
            shape=(self.puzzles, self.puzzle_size),
            initializer="zeros",
            name="vectors",
            autocast=False,
        )

    def call(self, batch_size: Any, training: bool = False, puzzles: Any = None) -> Any:
        """Returns [batch_size, memory_size, hidden_size] of puzzles int32 [batch_size]; None: all
        are the first one.
        """
        puzzles = tf.zeros([batch_size], tf.int32) if puzzles is None else puzzles
        sentence = f"a puzzle's number is none of num_puzzles={self.puzzles}: raise it."
        tf.debugging.assert_less(puzzles, self.puzzles, marked(sentence))
        rows = self.scale * tf.gather(tf.convert_to_tensor(self.vectors), puzzles)
        missing = self.memory_size * self.hidden_size - self.puzzle_size
        rows = tf.pad(rows, [[0, 0], [0, missing]])
        shape = [-1, self.memory_size, self.hidden_size]
        return tf.cast(tf.reshape(rows, shape), self.compute_dtype)


@keras.saving.register_keras_serializable("ut_tf")
class MemoryStack(Composite):
    """A ``Stack`` over memory and sequence, which it does not tell apart.

    Args:
      memory: ``MemoryVectors``.
      stack: ``LayerStack``, or a ``Recurrence``, whose every step then reads and writes the memory.
      causal: whether positions see only earlier ones, memory among them; all symbols see all of the
        memory.
      returns_memory: whether the memory's states stand in front of the symbols' in what is
        returned.
      memory_positions: whether rotary attention turns the memory, by the positions before the first
        symbol's.
      observes_memory: whether an observer's states are those of memory and symbols; otherwise the
        memory's stand for themselves.
      rotary_base: of the rotation of the memory's positions.

    Call arguments:
      as of ``LayerStack``, of the symbols alone.

    Returns:
      (states [batch, length, hidden_size], or [batch, memory size + length, hidden_size];
      RecurrenceDetails of the symbols, whose attention weights are those of memory and symbols).
    """

    def __init__(
        self,
        memory: MemoryVectors,
        stack: Any,
        causal: bool = False,
        returns_memory: bool = False,
        memory_positions: bool = False,
        observes_memory: bool = True,
        rotary_base: float = ROTARY_BASE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.causal = causal
        self.memory_positions = memory_positions
        self.observes_memory = observes_memory
        self.rotary_base = rotary_base
        self.returns_memory = returns_memory
        self.memory = memory
        self.stack = stack

    @property
    def halting_unit(self) -> Any:
        """The halting form of its recurrence."""
        return self.stack.halting_unit

    @property
    def recurrence(self) -> Any:
        """The ``Recurrence`` among its layers."""
        return getattr(self.stack, "recurrence", self.stack)

    def build(self, input_shape: Any) -> None:
        build_parts([self.memory, self.stack], input_shape)

    def call(
        self, inputs: Any, given: StackInputs, training: bool = False
    ) -> tuple[Any, RecurrenceDetails]:
        size, observer = self.memory.size(training), given.observer
        memory = self.memory(tf.shape(inputs)[0], training=training, puzzles=given.puzzles)
        states, details = self.stack(
            tf.concat([memory, tf.cast(inputs, self.compute_dtype)], 1),
            given=given.replace(
                symbol_mask=prepend(given.symbol_mask, size, 1.0, 1),
                position_signal=prepend(given.position_signal, size, 0.0, 1),
                context=self._with_memory(given.block_context(), size, tf.shape(inputs)[1]),
                observer=None if observer is None else self._of_symbols(observer, size),
            ),
            training=training,
        )
        details = details.from_position(size)
        return states if self.returns_memory else states[:, size:], details

    def prepare(self) -> dict[str, Any]:
        """The weights for ``append_memory`` and ``step``, read and cast once for all positions."""
        return {"memory": self.memory.prepare(), "stack": self.stack.prepare()}

    def empty_caches(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """The caches before the first memory vector: one per layer, whose first places are the
        memory's.
        """
        caches: list[dict[str, Any]] = self.stack.empty_caches(batch_size, capacity, beam_size)
        return caches

    def append_memory(
        self,
        number: Any,
        rows: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        cache_position: CachePosition,
    ) -> list[dict[str, Any]]:
        """The caches with one more memory vector, which stands before the first symbol.

        Args:
          number: int32 [], of the vector, from 0.
          rows: int32 [], batch * beam_size.
          weights: from ``prepare``.
          caches: from ``empty_caches`` or the vector before.
          cache_position: of the vector.
        """
        states = tf.tile(weights["memory"][number][None], [rows, 1])
        given = PositionInputs(cache_position)
        stepped: list[dict[str, Any]] = self.stack.step(states, weights["stack"], caches, given)[1]
        return stepped

    def step(
        self,
        inputs: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        given: PositionInputs,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes one new symbol of each hypothesis; arguments are those of ``LayerStack.step``,
        with `given.cache_position` behind the memory's.
        """
        stepped: tuple[Any, list[dict[str, Any]]] = self.stack.step(
            inputs, weights["stack"], caches, given
        )
        return stepped

    def _of_symbols(self, observer: Observer, size: int) -> Observer:
        """The observer of the outputs that the stack returns, and of their states."""
        first = 0 if self.returns_memory else size

        def observe(view: StepView) -> None:
            view = view._replace(output=None if view.output is None else view.output[:, first:])
            if self.observes_memory:
                observer(view)
                return
            names = ["state", "halting", "halting_probability", "previous_state"]
            names += ["low_state", "previous_low_state"]
            fields = {name: getattr(view, name) for name in names}
            symbols = tf.nest.map_structure(
                lambda values: None if values is None else values[:, size:], fields
            )
            observer(view._replace(**symbols, memory_states=view.state[:, :size]))

        return observe

    def _with_memory(self, context: BlockContext, size: int, length: Any) -> BlockContext:
        s = context
        return s._replace(
            bias=causal_bias(size + length) if self.causal else prepend(s.bias, size, 0.0, 3),
            keep=prepend(s.keep, size, 1.0, 1),
            rotation=(
                prepend_positions(s.rotation, size, self.rotary_base)
                if self.memory_positions
                else prepend_identity(s.rotation, size)
            ),
            # In an encoder the scale is the same for all queries.
            logit_scale=prepend(s.logit_scale, size, 1.0, 2) if self.causal else s.logit_scale,
        )


@keras.saving.register_keras_serializable("ut_tf")
class BottleneckStack(Composite):
    """Layers in which the sequence reads and writes through the memory only: an encoder.

        A_mem = LN(X_mem + MultiHead(X_mem, X_all, X_all));  H_mem = LN(A_mem + FF(A_mem))
        A_seq = LN(X_seq + MultiHead(X_seq, H_mem, H_mem));  H_seq = LN(A_seq + FF(A_seq))

    with weights of their own for the two halves: m · (m + n) + n · m attention weights for m
    vectors and n symbols, where a Transformer has n².

    Args:
      memory: ``MemoryVectors``.
      writers: for each layer the ``Block`` by which the memory attends over memory and symbols,
        without self-attention. With norm="pre" queries and keys pass through one norm, as in
        self-attention.
      readers: for each layer the block by which the symbols attend over the memory.
      final_norm: ``LayerNorm`` of what is returned, or None.
      returns_memory: whether the memory's states stand in front of the symbols' in what is
        returned.

    Call arguments:
      as those of ``LayerStack``; of the context, bias is that of the padding.

    Returns:
      (states [batch, length, hidden_size], or [batch, memory size + length, hidden_size];
      RecurrenceDetails of the symbols, whose attention_weights are the memory's over memory and
      symbols, [layers, batch, num_heads, memory size, memory size + length], and
      memory_attention_weights the symbols' over the memory, [layers, batch, num_heads, length,
      memory size]).
    """

    def __init__(
        self,
        memory: MemoryVectors,
        writers: Sequence[Block],
        readers: Sequence[Block],
        final_norm: Any = None,
        returns_memory: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.returns_memory = returns_memory
        self.memory = memory
        self.layer_count = len(writers)
        # The order of a layer's weights is that of its attributes.
        for number, (writer, reader) in enumerate(zip(writers, readers, strict=True)):
            setattr(self, f"write_{number}", writer)
            setattr(self, f"read_{number}", reader)
        self.final_norm = final_norm

    @property
    def writers(self) -> list[Block]:
        """The layers' blocks that write the memory, the first one first."""
        return kept_parts(self, "write", self.layer_count)

    @property
    def readers(self) -> list[Block]:
        """The layers' blocks that read the memory, the first one first."""
        return kept_parts(self, "read", self.layer_count)

    def build(self, input_shape: Any) -> None:
        layers = zip(self.writers, self.readers, strict=True)
        blocks = [block for layer in layers for block in layer]
        build_parts([self.memory, *blocks, self.final_norm], input_shape)

    def call(
        self, inputs: Any, given: StackInputs, training: bool = False
    ) -> tuple[Any, RecurrenceDetails]:
        size, s = self.memory.size(training), given.block_context()
        symbols = add_signal(inputs, given.position_signal, self.compute_dtype)
        memory = self.memory(tf.shape(inputs)[0], training=training)
        rotation = prepend_identity(s.rotation, size)
        bias = prepend(s.bias, size, 0.0, 3)
        writing = BlockContext(memory_bias=bias, memory_scale=s.logit_scale)
        reading = BlockContext(keep=s.keep, memory_rotation=s.rotation)
        records = []
        layers = zip(self.writers, self.readers, strict=True)
        for number, (write, read) in enumerate(layers):
            before = tf.concat([memory, symbols], 1)
            memory, written = _attend(write, memory, before, rotation, writing, training)
            symbols, read_weights = _attend(read, symbols, memory, None, reading, training)
            records.append((written, read_weights))
            if given.observer is not None:
                after = tf.concat([memory, symbols], 1)
                weights = (written, read_weights)
                view = StepView(tf.constant(number), after, None, None, *weights, before)
                given.observer(view._replace(output=self._returned(memory, symbols)))
        kept = records if given.return_attention else []
        details = details_of_layers(len(records), given.symbol_mask, kept)
        return self._returned(memory, symbols), details

    def _returned(self, memory: Any, symbols: Any) -> Any:
        states = tf.concat([memory, symbols], 1) if self.returns_memory else symbols
        return states if self.final_norm is None else self.final_norm(states)


def _attend(
    block: Block, states: Any, others: Any, rotation: Any, context: BlockContext, training: bool
) -> tuple[Any, Any]:
    """Returns (the block's output for `states` that attend over `others`, turned by `rotation`; the
    attention weights).
    """
    if block.norm != "post":
        others = block.memory_attention_norm(others)
    keys, values = block.memory_attention.keys_values(others, rotation)
    output, _, weights = block(
        states, context=context._replace(memory_keys=keys, memory_values=values), training=training
    )
    return output, weights
