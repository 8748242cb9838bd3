"""A recurrence with a recurrent layer and untied layers before it, and untied layers behind it.

In the place of a ``Recurrence``::

    stack = MixedStack(recurrence, recurrent=RecurrentLayer(128, "gru"))
    given = StackInputs(mask, signal, BlockContext(bias=padding_bias(mask)))
    states, details = stack(inputs, given=given)

Each part adds the positions for itself, or with position_every_step=False only the first one that
attends. Pre-norm there is one norm behind the last part (tensor2tensor's mix_with_transformer).
Keys and values of an encoder's states, and caches, are lists in the order of the parts.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.block_sequence import project_memories
from ut_tf.layers.composite import Composite, build_parts
from ut_tf.layers.contracts import PositionInputs, StackInputs
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.universal_transformer.recurrence import Recurrence


@keras.saving.register_keras_serializable("ut_tf")
class MixedStack(Composite):
    """A recurrence with other layers before and behind it.

    Args:
      recurrence: ``Recurrence``.
      recurrent: ``RecurrentLayer`` before all others, or None.
      before, after: ``LayerStack`` before and behind the recurrence, or None.
      norm_after_recurrence: whether the final norm of `after` ends the recurrence, too.

    Call arguments:
      as of ``contracts.Stack``; memory_keys and memory_values of the context hold one entry per
      part that attends (``project_memory``).

    Returns:
      (states [batch, length, hidden_size] in the compute dtype, RecurrenceDetails of the
      recurrence; its attention weights are those of all parts, one behind the other).

    Raises:
      UserError: layers follow a recurrence whose steps are all answered from.
    """

    def __init__(
        self,
        recurrence: Recurrence,
        recurrent: Any = None,
        before: Any = None,
        after: Any = None,
        norm_after_recurrence: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.norm_after_recurrence = norm_after_recurrence
        if after is not None and recurrence.halting_unit.with_step_outputs:
            form = type(recurrence.halting_unit).__name__
            raise UserError(
                f"{form} answers from the states of every step, so no layers can follow: leave"
                " `after` out (mix_layers_after=0)."
            )
        self.recurrent = recurrent
        self.before = before
        self.recurrence = recurrence
        self.after = after

    @property
    def attending(self) -> list[Any]:
        """The parts that attend, the first one first."""
        return [part for part in (self.before, self.recurrence, self.after) if part is not None]

    @property
    def halting_unit(self) -> Any:
        """The halting form of its recurrence."""
        return self.recurrence.halting_unit

    def build(self, input_shape: Any) -> None:
        build_parts([self.recurrent, *self.attending], input_shape)

    def call(
        self, inputs: Any, given: StackInputs, training: bool = False
    ) -> tuple[Any, RecurrenceDetails]:
        context = given.block_context()
        states = inputs
        if self.recurrent is not None:
            states = self.recurrent(inputs, given.symbol_mask, training=training)
        all_details: list[RecurrenceDetails] = []
        for number, part in enumerate(self.attending):
            own = given.replace(
                position_signal=self._signal(given.position_signal, number),
                context=context.of_part(number),
            )
            states, details = part(states, given=own, training=training)
            if self._ends_with_norm(part):
                states = self.after.final_norm(states)
            all_details.append(details)
        details = all_details[self.attending.index(self.recurrence)]
        for name in ("attention_weights", "memory_attention_weights"):
            weights = [getattr(part, name) for part in all_details]
            details = details._replace(
                **{name: None if weights[0] is None else tf.concat(weights, 0)}
            )
        return states, details

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], each
        one entry per part that attends.
        """
        return project_memories(self.attending, states, rotation)

    def prepare(self) -> dict[str, Any]:
        """The weights for ``step``, read, joined and cast once for all positions."""
        attending = [part.prepare() for part in self.attending]
        return {"attending": attending} | (
            {} if self.recurrent is None else {"recurrent": self.recurrent.prepare()}
        )

    def empty_caches(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """The caches of ``step`` before the first position, part by part."""
        recurrent = (
            [] if self.recurrent is None else [self.recurrent.empty_cache(batch_size, beam_size)]
        )
        return recurrent + [
            cache
            for part in self.attending
            for cache in part.empty_caches(batch_size, capacity, beam_size)
        ]

    def step(
        self,
        inputs: Any,
        weights: dict[str, Any],
        caches: list[dict[str, Any]],
        given: PositionInputs,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes one new position of each hypothesis; as ``contracts.Stack.step``."""
        states, remaining = inputs, list(caches)
        new_caches: list[dict[str, Any]] = []
        if self.recurrent is not None:
            states, cache = self.recurrent.step(states, weights["recurrent"], remaining.pop(0))
            new_caches.append(cache)
        attending = zip(self.attending, weights["attending"], strict=True)
        for number, (part, own) in enumerate(attending):
            mine, remaining = remaining[: part.cache_count], remaining[part.cache_count :]
            of_part = given._replace(
                position_signal=self._signal(given.position_signal, number),
                context=given.context.of_part(number),
            )
            states, stepped = part.step(states, own, mine, of_part)
            if self._ends_with_norm(part):
                norm_weights = weights["attending"][-1]["final_norm"]
                states = self.after.final_norm.step(states, norm_weights)
            new_caches += stepped
        return states, new_caches

    def _ends_with_norm(self, part: Any) -> bool:
        return self.norm_after_recurrence and part is self.recurrence

    def _signal(self, position_signal: Any, number: int) -> Any:
        every_part = self.recurrence.position_every_step
        return position_signal if number == 0 or every_part else None
