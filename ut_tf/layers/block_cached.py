"""The block for one new position in incremental decoding: ``Block`` from the caches of the earlier
positions.

``step`` does it in one. ``append`` and ``finish`` are its two parts: the first computes what later
positions read, so that a hypothesis that has halted leaves out the second.
"""

from typing import Any, NamedTuple

from ut_tf.layers.active_positions import ActivePositions
from ut_tf.layers.key_value_cache import CachePosition
from ut_tf.layers.transition import StepTransitions

# The places of norms: before a sublayer, after it (on its output, or on the sum), and after all.
NORMS_BEFORE = ("pre", "sandwich", "peri")
NORMS_AFTER = ("sandwich", "peri")
WITH_FINAL_NORM = ("pre", "peri")


class PositionContext(NamedTuple):
    """The input of a block besides the state of one new position.

    Fields:
      rotation: of the position, for rotary attention, or None.
      logit_scale: of the self-attention, or None.
      memory: what ``MultiHeadAttention.attend_memory_cached`` reads, or None.
    """

    rotation: tuple[Any, Any] | None = None
    logit_scale: Any = None
    memory: dict[str, Any] | None = None

    def of_part(self, number: int) -> "PositionContext":
        """The context of one of several parts, where keys and values of the memory are lists of one
        entry per part.
        """
        if self.memory is None:
            return self
        own = {name: self.memory[name][number] for name in ("keys", "values")}
        return self._replace(memory={**self.memory, **own})


class CachedBlock:
    """The part of ``Block`` that computes one new position of each hypothesis."""

    self_attention: Any
    memory_attention: Any
    transition: Any
    norm: str
    residual_scale: float
    with_memory: bool

    def prepare(self) -> dict[str, Any]:
        """The weights for ``append`` and ``finish``, read, joined and cast once for all
        positions.
        """
        weights = {name: getattr(self, name).prepare() for name in self._norms()}
        weights["self_attention"] = self.self_attention.prepare()
        if self.with_memory:
            weights["memory_attention"] = self.memory_attention.prepare(("query",))
        if self.transition is not None:
            weights["transition"] = self.transition.prepare()
        return weights

    def empty_cache(self, batch_size: Any, capacity: Any, beam_size: int) -> dict[str, Any]:
        """The cache of ``step`` before the first position: the histories of "attention" and
        "transition" of each hypothesis.
        """
        transition = (
            {} if self.transition is None else self.transition.empty_cache(batch_size, beam_size)
        )
        return {
            "attention": self.self_attention.empty_cache(batch_size, capacity, beam_size),
            "transition": transition,
        }

    def cache_bias(self, cache_position: CachePosition, weights: dict[str, Any]) -> Any:
        """The self-attention's ``cache_bias`` for the new position; the same at every recurrent
        step.
        """
        return self.self_attention.cache_bias(cache_position, weights["self_attention"])

    def step(
        self,
        x: Any,
        weights: dict[str, Any],
        cache: dict[str, Any],
        cache_position: CachePosition,
        bias: Any,
        context: PositionContext,
        step: int = 0,
    ) -> tuple[Any, dict[str, Any]]:
        """Computes the block for one new position of each hypothesis, given the caches of the
        earlier ones.

        Args:
          x: [batch * beam_size, hidden_size].
          weights: from ``prepare``.
          cache: from ``empty_cache`` or an earlier position.
          cache_position: of the new position.
          bias: from ``cache_bias``.
          context: of the new position.
          step: as in the call.

        Returns:
          (output [batch * beam_size, hidden_size], the new cache).
        """
        queries, cache = self.append(x, weights, cache, cache_position, context)
        return self.finish(x, queries, weights, cache, cache_position, bias, context, step)

    def append(
        self,
        x: Any,
        weights: dict[str, Any],
        cache: dict[str, Any],
        cache_position: CachePosition,
        context: PositionContext,
    ) -> tuple[Any, dict[str, Any]]:
        """Does the part of ``step`` that later positions read: (queries, the cache with keys and
        values of the new position).
        """
        y = self._before_step("self_attention", x, weights)
        queries, attention = self.self_attention.append(
            y, weights["self_attention"], cache["attention"], cache_position, context.rotation
        )
        return queries, {**cache, "attention": attention}

    def finish(
        self,
        x: Any,
        queries: Any,
        weights: dict[str, Any],
        cache: dict[str, Any],
        cache_position: CachePosition,
        bias: Any,
        context: PositionContext,
        step: int = 0,
        active: ActivePositions | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Does the rest of ``step``, from the queries of all hypotheses on; where `active` is
        given x and the output are those of the active hypotheses, [rows, hidden_size].
        """
        output = self.self_attention.attend_cached(
            queries,
            weights["self_attention"],
            cache["attention"],
            cache_position,
            bias,
            context.logit_scale,
            active,
        )
        x = self._after_step("self_attention", x, output, weights)
        if self.with_memory:
            output = self.memory_attention.attend_memory_cached(
                self._before_step("memory_attention", x, weights),
                weights["memory_attention"],
                context.memory,
                cache_position.beam_size,
                context.rotation,
                active,
            )
            x = self._after_step("memory_attention", x, output, weights)
        if self.transition is not None:
            output, transition = self.transition.step(
                self._before_step("transition", x, weights),
                weights["transition"],
                cache["transition"],
                **self._of_step(step),
            )
            x = self._after_step("transition", x, output, weights)
            cache = {**cache, "transition": transition}
        return x, cache

    def _before_step(self, name: str, x: Any, weights: dict[str, Any]) -> Any:
        """Returns a sublayer's input: x, through the norm if the norm comes first."""
        return self._normal(f"{name}_norm", x, weights) if self.norm in NORMS_BEFORE else x

    def _after_step(self, name: str, x: Any, output: Any, weights: dict[str, Any]) -> Any:
        """Returns x with the output of a sublayer."""
        if self.norm == "peri":
            output = self._normal(f"{name}_norm_after", output, weights)
        x = x + (output if self.residual_scale == 1.0 else self.residual_scale * output)
        if self.norm in WITH_FINAL_NORM:
            return x
        return self._normal(self._last_norm(name), x, weights)

    def _last_norm(self, name: str) -> str:
        """Returns the name of the norm of the sum of a sublayer's output and its input."""
        return f"{name}_norm_after" if self.norm in NORMS_AFTER else f"{name}_norm"

    def _normal(self, name: str, x: Any, weights: dict[str, Any]) -> Any:
        return getattr(self, name).step(x, weights[name])

    def _sublayers(self) -> list[str]:
        """Returns the names of the sublayers that are there, in their order."""
        names = ("self_attention", "memory_attention", "transition")
        return [name for name in names if getattr(self, name) is not None]

    def _norms(self) -> list[str]:
        """Returns the names of the norms, in their order."""
        ends = ("_norm", "_norm_after") if self.norm in NORMS_AFTER else ("_norm",)
        return [f"{name}{end}" for name in self._sublayers() for end in ends]

    def _of_step(self, step: Any) -> dict[str, Any]:
        """Returns the argument of transitions that have weights for each step."""
        return {"step": step} if isinstance(self.transition, StepTransitions) else {}
