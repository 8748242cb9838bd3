"""Padding that stands before or between the symbols is moved behind them, and the results back.

::

    order = SymbolsFirst(ids != 0)
    ids = order.packed(ids)            # [[0, 5, 0, 3]] -> [[5, 3, 0, 0]]
    states = model(ids)
    (states,) = order.unpacked([states])    # where their symbols stood

So positions count symbols, and all that a model computes of them is what it computes of the same
symbols with padding at the end, bit by bit. Where padding is at the end already, everything passes
through as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ut_tf.layers.recurrence_details import Observer, RecurrenceDetails, StepView

_BY_POSITION = ("ponder_times", "remainders", "mask", "costs", "computed_steps", "residuals")
_BY_STEP = ("halting_probabilities", "log_shares", "step_states")
_WEIGHTS = ("attention_weights", "memory_attention_weights")


class SymbolsFirst:
    """The order of the positions of a batch with the symbols first.

    Args:
      mask: bool or float [batch, length], false or 0 on padding.
    """

    def __init__(self, mask: Any) -> None:
        self.mask = tf.cast(mask, tf.bool)
        self.moves = tf.reduce_any(self.mask[:, 1:] & ~self.mask[:, :-1])

    def packed(self, values: Any) -> Any:
        """The values [batch, length, ...] with the symbols' first."""

        def moved() -> Any:
            return tf.gather(values, tf.argsort(self._position_inputs()), batch_dims=1)

        return self._if_moved([values], lambda: [moved()])[0]

    def unpacked(
        self, values: Sequence[Any], axes: Sequence[tuple[int, int]] | None = None
    ) -> list[Any]:
        """Values in the order of packed symbols, where their symbols stood.

        Args:
          values: tensors, with any number of positions more than the mask has in front of the
            others, which stay.
          axes: of each, the batch's and the positions'; None: 0 and 1.
        """
        places = axes or [(0, 1)] * len(values)

        def moved() -> list[Any]:
            return [self._back(value, *axis) for value, axis in zip(values, places, strict=True)]

        return self._if_moved(list(values), moved)

    def details(
        self,
        details: RecurrenceDetails,
        memory: "SymbolsFirst | None" = None,
        queries_are_positions: bool = True,
    ) -> RecurrenceDetails:
        """Details of the packed symbols, where these stood.

        Args:
          details: of a stack.
          memory: the order of the positions that ``memory_attention_weights`` are over; None:
            these stay.
          queries_are_positions: whether attention weights have a row for each position.
        """
        fields = dict.fromkeys(_BY_POSITION, (0, 1)) | dict.fromkeys(_BY_STEP, (1, 2))
        given = {name: axes for name, axes in fields.items() if getattr(details, name) is not None}
        values = self.unpacked([getattr(details, name) for name in given], [*given.values()])
        own, of_memory = (getattr(details, name) for name in _WEIGHTS)
        return details._replace(
            attention_weights=self._weights(own, self, queries_are_positions),
            memory_attention_weights=self._weights(of_memory, memory, True),
            **dict(zip(given, values, strict=True)),
        )

    def observer(self, observer: Observer | None, memory: "SymbolsFirst | None") -> Observer | None:
        """An observer that passes views of the packed symbols on, where these stood."""
        if observer is None:
            return None

        def observe(view: StepView) -> None:
            names = ["state", "halting", "halting_probability", "previous_state", "output"]
            names += ["low_state", "previous_low_state"]
            given = {name: getattr(view, name) for name in names}
            flat = tf.nest.flatten(given)
            moved = iter(self.unpacked([value for value in flat if value is not None]))
            places = tf.nest.pack_sequence_as(
                given, [None if value is None else next(moved) for value in flat]
            )
            own = self._weights(view.attention_weights, self, True)
            of_memory = self._weights(view.memory_attention_weights, memory, True)
            weights = {"attention_weights": own, "memory_attention_weights": of_memory}
            observer(view._replace(**places, **weights))

        return observe

    def _position_inputs(self) -> Any:
        """Int32 [batch, length], where each position is among the packed ones."""
        is_symbol = tf.cast(self.mask, tf.int32)
        before = tf.cumsum(is_symbol, 1, exclusive=True)
        count = tf.reduce_sum(is_symbol, 1, keepdims=True)
        index = tf.range(tf.shape(is_symbol)[1])[None]
        return tf.where(self.mask, before, count + index - before)

    def _back(self, values: Any, batch_axis: int, axis: int) -> Any:
        places = self._position_inputs()
        prepend = tf.shape(values)[axis] - tf.shape(places)[1]
        stay = tf.range(prepend)[None] + tf.zeros_like(places[:, :1])
        rest = [other for other in range(values.shape.rank) if other not in (batch_axis, axis)]
        order = [batch_axis, axis, *rest]
        index = tf.concat([stay, places + prepend], 1)
        gathered = tf.gather(tf.transpose(values, order), index, batch_dims=1)
        return tf.transpose(gathered, [order.index(dimension) for dimension in range(len(order))])

    def _weights(self, weights: Any, keys: "SymbolsFirst | None", by_position: bool) -> Any:
        """Attention weights [..., batch, num_heads, queries, keys]."""
        if weights is None:
            return None
        rank = weights.shape.rank
        if by_position:
            (weights,) = self.unpacked([weights], [(rank - 4, rank - 2)])
        return weights if keys is None else keys.unpacked([weights], [(rank - 4, rank - 1)])[0]

    def _if_moved(self, values: list[Any], moved: Callable[[], list[Any]]) -> list[Any]:
        if tf.executing_eagerly():
            return moved() if self.moves else values
        results = tf.cond(self.moves, moved, lambda: values)
        for result, value in zip(results, values, strict=True):
            result.set_shape(value.shape)
        return list(results)


def packed_ids(ids: Any) -> tuple[Any, SymbolsFirst]:
    """Ids with the symbols first, and the order of their positions.

    Args:
      ids: int32 [batch, length], or [batch, rows, words]: of these the words of each row, too, come
        first.
    """
    if ids.shape.rank == 3:
        shape = tf.shape(ids)
        rows = tf.reshape(ids, [-1, shape[2]])
        ids = tf.ensure_shape(tf.reshape(SymbolsFirst(rows != 0).packed(rows), shape), ids.shape)
        order = SymbolsFirst(tf.reduce_any(ids != 0, -1))
    else:
        order = SymbolsFirst(ids != 0)
    return order.packed(ids), order
