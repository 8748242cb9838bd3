"""What may stand around a recurrence: a recurrent layer and untied layers before it, untied layers
behind it.

How it is used, in the place of a ``Recurrence``::

    stack = MixedStack(NetworkConfig(mix_layers_before=2, recurrent_layer="gru"))
    states, details = stack(inputs, symbol_mask=mask, positions=positions,
        context=BlockContext(bias=padding_bias(mask)))

How it works: the parts follow one another: ``RecurrentLayer``, ``LayerStack`` of mix_layers_before,
``Recurrence``, ``LayerStack`` of mix_layers_after, of which a network may have any. Each part adds
the positions for itself (with position_every_step, else only the first one that attends), and
pre-norm there is one norm behind the last part: tensor2tensor's mix_with_transformer. What each
part reads of an encoder's states, and its caches, stand in lists in the order of the parts.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from ut_tf.config.network import NetworkConfig
from ut_tf.errors import UserError
from ut_tf.layers.block import BlockContext, PositionContext
from ut_tf.layers.cache import CachePosition
from ut_tf.layers.details import Observer, RecurrenceDetails
from ut_tf.layers.recurrent_layer import RecurrentLayer
from ut_tf.layers.stack import LayerStack
from ut_tf.models.universal_transformer.recurrence import Recurrence


def is_mixed(network: NetworkConfig) -> bool:
    """Returns whether anything stands around the recurrence."""
    return (
        network.recurrent_layer != "none"
        or network.mix_layers_before + network.mix_layers_after > 0
    )


@keras.saving.register_keras_serializable("ut_tf")
class MixedStack(keras.layers.Layer):  # type: ignore[misc]
    """A recurrence with other layers before and behind it.

    Args:
      network: NetworkConfig; recurrent_layer, mix_layers_before and mix_layers_after say what there
        is.
      causal, with_memory, with_step_transitions, with_step_outputs: as for ``Recurrence``.

    Call arguments:
      as for ``Recurrence``; memory_keys and memory_values of the context hold one entry per
      part that attends (``project_memory``).

    Returns:
      (states [batch, length, hidden_size] in the compute dtype, RecurrenceDetails of the
      recurrence; its attention weights are those of all parts, one behind the other).
    """

    def __init__(
        self,
        network: NetworkConfig,
        causal: bool = False,
        with_memory: bool = False,
        with_step_transitions: bool = False,
        with_step_outputs: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.causal = causal
        self.with_memory = with_memory
        self.with_step_transitions = with_step_transitions
        self.with_step_outputs = with_step_outputs
        options = {"causal": causal, "with_memory": with_memory, "dtype": self.dtype_policy}
        self.recurrent: Any = None
        if network.recurrent_layer != "none":
            self.recurrent = RecurrentLayer(
                network, causal, name="recurrent", dtype=self.dtype_policy
            )
        before = dataclasses.replace(network, num_layers=network.mix_layers_before)
        after = dataclasses.replace(network, num_layers=network.mix_layers_after)
        self.before = (
            LayerStack(before, with_final_norm=False, name="before", **options)
            if before.num_layers
            else None
        )
        ends = after.num_layers == 0
        if with_step_outputs and network.halting == "pondernet" and not ends:
            raise UserError(
                "halting=pondernet answers from the states of every step, so no layers can follow:"
                " set mix_layers_after=0."
            )
        own = {
            "with_step_transitions": with_step_transitions,
            "with_step_outputs": with_step_outputs,
            "with_final_norm": ends,
        }
        self.recurrence = Recurrence(network, **own, name="recurrence", **options)
        self.after = None if ends else LayerStack(after, name="after", **options)

    @property
    def attending(self) -> list[Any]:
        """The parts that attend, the first one first."""
        return [part for part in (self.before, self.recurrence, self.after) if part is not None]

    def build(self, input_shape: Any) -> None:
        parts: list[Any] = [self.recurrent, *self.attending]
        for part in parts:
            if part is not None and not part.built:
                part.build(input_shape)

    def call(
        self,
        inputs: Any,
        symbol_mask: Any,
        positions: Any,
        context: BlockContext,
        steps: Any = None,
        training: bool = False,
        return_attention: bool = False,
        observer: Observer | None = None,
    ) -> tuple[Any, RecurrenceDetails]:
        states = (
            inputs
            if self.recurrent is None
            else self.recurrent(inputs, symbol_mask, training=training)
        )
        options = {
            "steps": steps,
            "training": training,
            "return_attention": return_attention,
            "observer": observer,
        }
        found: list[RecurrenceDetails] = []
        for number, part in enumerate(self.attending):
            states, details = part(
                states,
                symbol_mask=symbol_mask,
                positions=self._positions(positions, number),
                context=context.of_part(number),
                **options,
            )
            found.append(details)
        details = found[self.attending.index(self.recurrence)]
        for name in ("attention_weights", "memory_attention_weights"):
            weights = [getattr(one, name) for one in found]
            details = details._replace(
                **{name: None if weights[0] is None else tf.concat(weights, 0)}
            )
        return states, details

    def project_memory(self, states: Any, rotation: Any = None) -> tuple[Any, Any]:
        """Returns keys and values of an encoder's states [batch, memory_length, hidden_size], each
        one entry per part that attends.
        """
        pairs = [part.project_memory(states, rotation) for part in self.attending]
        return [keys for keys, _ in pairs], [values for _, values in pairs]

    def prepare(self) -> dict[str, Any]:
        """Returns the weights for ``step``, read, joined and cast once for all positions."""
        attending = [part.prepare() for part in self.attending]
        return {"attending": attending} | (
            {} if self.recurrent is None else {"recurrent": self.recurrent.prepare()}
        )

    def empty_caches(self, batch_size: Any, capacity: Any, beam_size: int) -> list[dict[str, Any]]:
        """Returns the caches of ``step`` before the first position, part by part."""
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
        cache_position: CachePosition,
        positions: Any,
        context: PositionContext,
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Computes one new position of each hypothesis, given the caches of the earlier ones;
        arguments as of ``Recurrence.step``.
        """
        states, rest = inputs, list(caches)
        new_caches: list[dict[str, Any]] = []
        if self.recurrent is not None:
            states, cache = self.recurrent.step(states, weights["recurrent"], rest.pop(0))
            new_caches.append(cache)
        for number, (part, own) in enumerate(
            zip(self.attending, weights["attending"], strict=True)
        ):
            mine, rest = rest[: part.cache_count], rest[part.cache_count :]
            states, stepped = part.step(
                states,
                own,
                mine,
                cache_position,
                self._positions(positions, number),
                context.of_part(number),
            )
            new_caches += stepped
        return states, new_caches

    def _positions(self, positions: Any, number: int) -> Any:
        return positions if number == 0 or self.network.position_every_step else None

    def get_config(self) -> dict[str, Any]:
        names = ("causal", "with_memory", "with_step_transitions", "with_step_outputs")
        return {
            **super().get_config(),
            "network": self.network.to_dict(),
            **{name: getattr(self, name) for name in names},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MixedStack:
        return cls(**{**config, "network": NetworkConfig.from_dict(config["network"])})
