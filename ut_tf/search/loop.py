"""The loop that all searches share: positions one after the other, until every example has ended.

Example::

    def advance(logits, index, state):  # chooses the symbols of one position
        return state, parents  # (state, None) where every row goes on from itself

    state = run(stepper, features, state, advance, max_length)  # tensors [batch, ...]

The inner ``tf.while_loop`` decodes positions while the cache has room for them. The outer one makes
more room, so that attention reads little more than what was decoded, and leaves out the examples
that have ended, once they are many.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_tf.search.contract import CONSTANTS, EXAMPLES

State = dict[str, Any]
Advance = Callable[[Any, Any, State], tuple[State, Any]]

# Room is made for at least so many positions more, and at least for this share of those there are:
# few shapes, little copying.
_ROOM = 16
_GROWTH = 4
# Examples that have ended are left out once no more than this share of them, in quarters, goes on.
_QUARTERS_LEFT = 3


def run(
    stepper: Any, features: dict[str, Any], state: State, advance: Advance, max_length: Any
) -> State:
    """The state after all examples are done, or after `max_length` positions.

    Args:
      stepper: from ``make_stepper``.
      features: what is decoded; with "batch_size".
      state: tensors [batch, ...]; "done" bool [batch], and "symbols" int32 [batch, beam_size], the
        input of the first position. An example that is done must not change any more.
      advance: called with float32 logits [batch * beam_size, vocab], the position int32 [] and the
        state of the examples that go on; returns (their new state, the hypotheses int32 [batch,
        beam_size] that each goes on from, or None).
      max_length: int32 [].
    """
    max_length = tf.convert_to_tensor(max_length, tf.int32)
    room = tf.minimum(_ROOM, max_length)
    cache = stepper.start(features, room, max_length)
    constants = cache.get(CONSTANTS)
    held = {name: part for name, part in cache.items() if name != CONSTANTS}

    def with_constants(held: dict[str, Any]) -> dict[str, Any]:
        return held if constants is None else {**held, CONSTANTS: constants}

    def unfinished(
        index: Any, capacity: Any, kept: Any, state: State, held: dict[str, Any], whole: State
    ) -> Any:
        del capacity, kept, held, whole
        return tf.logical_and(index < max_length, tf.logical_not(tf.reduce_all(state["done"])))

    def body(
        index: Any, capacity: Any, kept: Any, state: State, held: dict[str, Any], whole: State
    ) -> tuple[Any, ...]:
        index, state, cache = _positions(
            stepper, with_constants(held), state, advance, index, capacity
        )
        whole = {
            name: tf.tensor_scatter_nd_update(whole[name], kept[:, None], value)
            for name, value in state.items()
        }
        left = _left(state["done"])
        capacity = tf.minimum(capacity + tf.maximum(_ROOM, capacity // _GROWTH), max_length)
        resized = stepper.resize(cache, left, capacity)
        held = {name: part for name, part in resized.items() if name != CONSTANTS}
        return (
            index,
            capacity,
            tf.gather(kept, left),
            {name: tf.gather(value, left) for name, value in state.items()},
            held,
            whole,
        )

    start = (tf.constant(0), room, tf.range(tf.shape(state["done"])[0]), state, held, state)
    shapes = (
        start[0].shape,
        start[1].shape,
        tf.TensorShape([None]),
        _any_examples(state),
        _any_examples(held, 2),
        _any_examples(state),
    )
    whole: State = tf.while_loop(unfinished, body, start, shape_invariants=shapes)[-1]
    return whole


def _positions(
    stepper: Any, cache: dict[str, Any], state: State, advance: Advance, index: Any, capacity: Any
) -> tuple[Any, State, dict[str, Any]]:
    """Decodes from position `index` on until `capacity` or until all are done; returns (next
    position, state, cache).
    """
    fixed = {name: cache[name] for name in (CONSTANTS, EXAMPLES) if name in cache}
    changing = {name: part for name, part in cache.items() if name not in fixed}

    def going_on(index: Any, state: State, changing: dict[str, Any]) -> Any:
        del changing
        return tf.logical_and(index < capacity, tf.logical_not(tf.reduce_all(state["done"])))

    def body(
        index: Any, state: State, changing: dict[str, Any]
    ) -> tuple[Any, State, dict[str, Any]]:
        logits, cache = stepper.step(
            tf.reshape(state["symbols"], [-1]), index, {**fixed, **changing}
        )
        new_state, parents = advance(logits, index, state)
        if parents is not None:
            cache = stepper.reorder(cache, parents)
        new_changing = {name: cache[name] for name in changing}
        tf.nest.map_structure(_keep_shape, (new_state, new_changing), (state, changing))
        return index + 1, new_state, new_changing

    index, state, changing = tf.while_loop(going_on, body, (index, state, changing))
    return index, state, {**fixed, **changing}


def _left(done: Any) -> Any:
    """The numbers of the examples to go on with: all, or only those that are not done where
    few enough are left.
    """
    count = tf.shape(done)[0]
    going_on = tf.reshape(tf.where(tf.logical_not(done)), [-1])
    few = tf.size(going_on) * 4 <= count * _QUARTERS_LEFT
    return tf.cond(few, lambda: tf.cast(going_on, tf.int32), lambda: tf.range(count))


def _any_examples(structure: Any, *axes: int) -> Any:
    """The shapes of the tensors with any number of examples, and any size along further
    `axes`.
    """

    def relaxed(tensor: Any) -> Any:
        sizes = tensor.shape.as_list()
        return tf.TensorShape(
            [None if axis == 0 or axis in axes else size for axis, size in enumerate(sizes)]
        )

    return tf.nest.map_structure(relaxed, structure)


def _keep_shape(new: Any, old: Any) -> None:
    """Sets the known shape of a loop's next value, which does not change within one run of the
    inner loop.
    """
    if not tf.executing_eagerly():
        new.set_shape(old.shape)
