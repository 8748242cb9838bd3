"""Drafts of a recurrence's first steps, for ``search/speculation.py``.

A round of k positions takes the first steps of each in turn, whose state drafts the symbol that the
next position reads, and then the other steps of all k together. The first steps belong to both: no
product is computed twice, and where all drafts hold, k positions cost little more than one.

The positions of a round have k entries of the cache in a row. Entries whose symbols do not hold
stay hidden: examples go on from the same entry, each at its own position.
"""

from typing import Any

import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.layers.contracts import PositionInputs
from ut_tf.layers.key_value_cache import CachePosition, span_position
from ut_tf.models.universal_transformer.recurrence import Recurrence
from ut_tf.search.contract import CONSTANTS, EXAMPLES, Cache
from ut_tf.symbols import PADDING_ID

MOST_POSITIONS = 8
"""Positions of a round at most."""
_FIRST_POSITIONS = 4
_MEMORY = 0.7
# Where fewer drafts are accepted in a round, one round in so many drafts.
_FEW, _PROBE = 0.3, 12


class DraftingStepper:
    """Rounds of drafts and their verification; methods are those of ``IncrementalStepper``.

    Args:
      model: a Universal Transformer with a decoder.
      draft_steps: the first recurrent steps, which draft.

    Raises:
      UserError: the model's decoder does not go position by position with keys and values alone, or
        has no more steps than these.
    """

    beam_size = 1

    def __init__(self, model: Any, draft_steps: int) -> None:
        decoder = model.decoder
        if not _can_draft(model):
            raise UserError(
                f"draft_steps={draft_steps}: this model decodes by more than its own keys and"
                " values, or by relative or random positions: set it to 0."
            )
        steps = model.max_steps(training=False)
        if draft_steps >= steps:
            raise UserError(
                f"draft_steps={draft_steps}: the model takes at most {steps} steps: expected fewer."
            )
        self.model = model
        self.draft_steps = draft_steps
        self._early = draft_steps * (decoder.layers_per_step or 1)

    def start(self, features: dict[str, Any], capacity: Any, max_length: Any) -> Cache:
        """The cache before the first position, with room for `capacity` rounds."""
        cache = self.model.start_decoding(features, capacity * MOST_POSITIONS)
        zeros = tf.zeros(tf.shape(cache["visible"])[:1], tf.int32)
        examples = {**cache.get(EXAMPLES, {}), "last": zeros + max_length - 1}
        if "prefix" in features:
            examples["prefix"] = features["prefix"]
        round_state = {
            "round": zeros,
            "entry": zeros,
            "position": zeros,
            "count": zeros + _FIRST_POSITIONS,
            "accepted": tf.cast(zeros, tf.float32) + 1.0,
        }
        return {**cache, EXAMPLES: examples, **round_state}

    def step(self, symbols: Any, index: Any, cache: Cache) -> tuple[Any, Cache]:
        """((logits, drafts), the new cache) of the round `index`; see ``speculate``."""
        first, count = cache["entry"][0], cache["count"][0]
        early, late = cache["blocks"][: self._early], cache["blocks"][self._early :]

        def draft(number: Any, symbols: Any, blocks: Any) -> tuple[Any, Any, Any]:
            span = self._span(cache, first, first + number, tf.constant(1))
            places = self._places(cache, number + tf.range(1))
            states, progress, blocks = self._run(symbols[:, None], places, span, cache, blocks)
            # Nothing reads what the last one drafts.
            drafted = tf.cond(
                number + 1 < count,
                lambda: self._drafted(states, places[:, 0], cache),
                lambda: tf.zeros_like(symbols),
            )
            return drafted, progress, blocks

        # The first one shows what is kept of each.
        drafted, progress, early = draft(tf.constant(0), symbols, early)
        kept = (symbols, drafted, progress)
        arrays = tf.nest.map_structure(
            lambda values: tf.TensorArray(values.dtype, count, element_shape=values.shape).write(
                0, values
            ),
            kept,
        )

        def body(number: Any, symbols: Any, blocks: Any, arrays: Any) -> Any:
            drafted, progress, blocks = draft(number, symbols, blocks)
            written = tf.nest.map_structure(
                lambda array, values: array.write(number, values),
                arrays,
                (symbols, drafted, progress),
            )
            return number + 1, drafted, blocks, written

        _, _, early, arrays = tf.while_loop(
            lambda number, *_: number < count, body, (tf.constant(1), drafted, early, arrays)
        )
        fed, drafts, progress = tf.nest.map_structure(_by_example, arrays)
        progress = tf.nest.map_structure(_as_rows, progress)
        span = self._span(cache, first, first, count)
        places = self._places(cache, tf.range(count))
        states, _, late = self._run(fed, places, span, cache, late, self.draft_steps, progress)
        logits = self.model.step_logits(states, cache[CONSTANTS])
        shape = tf.concat([tf.shape(fed), tf.shape(logits)[1:]], 0)
        logits = tf.ensure_shape(tf.reshape(logits, shape), [None, None, logits.shape[1]])
        return (logits, drafts), {**cache, "blocks": [*early, *late]}

    def reorder(self, cache: Cache, taken: Any) -> Cache:
        """The cache in which the first `taken`, int32 [batch], positions of the round hold."""
        first, count, rounds = cache["entry"], cache["count"], cache["visible"]
        entries = tf.range(tf.shape(rounds)[2])
        holds = (entries >= first[:, None]) & (entries < (first + taken)[:, None])
        running = tf.cast(taken > 0, tf.float32)
        mean = tf.reduce_sum(tf.cast(taken - 1, tf.float32) * running)
        mean = mean / tf.maximum(tf.reduce_sum(running), 1.0)
        # A round without drafts says nothing about them.
        share = tf.where(count > 1, 1.0 - _MEMORY, 0.0)
        accepted = (1.0 - share) * cache["accepted"] + share * mean
        wanted = tf.cast(tf.math.ceil(1.5 * accepted), tf.int32) + 1
        probes = tf.where(cache["round"] % _PROBE == 0, 2, 1)
        wanted = tf.where(accepted < _FEW, probes, wanted)
        return {
            **cache,
            "visible": tf.where(holds[:, None, :, None], 0.0, rounds),
            "round": cache["round"] + 1,
            "entry": first + count,
            "position": cache["position"] + taken,
            "accepted": accepted,
            "count": tf.minimum(wanted, MOST_POSITIONS),
        }

    def resize(self, cache: Cache, kept: Any, capacity: Any) -> Cache:
        """The cache of the examples `kept`, with room for `capacity` rounds."""
        resized: Cache = self.model.resize_cache(cache, kept, capacity * MOST_POSITIONS)
        return resized

    def _run(
        self,
        symbols: Any,
        places: Any,
        span: CachePosition,
        cache: Cache,
        blocks: list[Any],
        first: int = 0,
        progress: Any = None,
    ) -> tuple[Any, Any, list[Any]]:
        """Takes the steps that `blocks` are of, from `first` on: (states [batch * count,
        hidden_size], the progress, the new blocks), of symbols int32 [batch, count] at places.
        """
        model, weights = self.model, cache[CONSTANTS]
        signal, context = model.span_context(places, cache[EXAMPLES], weights)
        rows = tf.reshape(places, [-1])
        inputs = model.embed_step(tf.reshape(symbols, [-1]), rows, weights)
        given = PositionInputs(
            span, signal, context, lambda states: model.step_logits(states, weights)
        )
        result: tuple[Any, Any, list[Any]] = model.decoder.position_steps(
            inputs, weights["decoder"], blocks, given, first, progress
        )
        return result

    def _span(self, cache: Cache, first: Any, index: Any, count: Any) -> CachePosition:
        network = self.model.network
        sizes = network.num_heads, network.width_of_head, self.model.compute_dtype
        return span_position(cache["visible"], first, index, count, *sizes)

    @staticmethod
    def _places(cache: Cache, numbers: Any) -> Any:
        """The positions int32 [batch, count] of a round's numbers; none is beyond the longest."""
        places = cache["position"][:, None] + numbers
        return tf.minimum(places, cache[EXAMPLES]["last"][:, None])

    def _drafted(self, states: Any, places: Any, cache: Cache) -> Any:
        """The symbols int32 [batch] at places, by states [batch, hidden_size], or the prefix's."""
        logits = self.model.step_logits(states, cache[CONSTANTS])
        symbols = tf.range(tf.shape(logits)[1])
        logits = tf.where(symbols == PADDING_ID, logits.dtype.min, logits)
        drafted = tf.argmax(logits, -1, output_type=tf.int32)
        prefix = cache[EXAMPLES].get("prefix")
        if prefix is None:
            return drafted
        at = tf.range(tf.shape(prefix)[1]) == places[:, None]
        given = tf.reduce_sum(tf.where(at, prefix, 0), 1)
        return tf.where(given == PADDING_ID, drafted, given)


def _can_draft(model: Any) -> bool:
    decoder = model.decoder
    if not model.supports_incremental_decoding or not isinstance(decoder, Recurrence):
        return False
    blocks = getattr(decoder.block, "blocks", [decoder.block])
    attentions = [part for part in decoder._flatten_layers() if hasattr(part, "relative_table")]
    return (
        all(block.remembers_only_keys for block in blocks)
        and not decoder.cell.sees_earlier_states
        and decoder.initial_state is None
        and not model.cache_offset
        and all(part.relative_table is None for part in attentions)
    )


def _by_example(array: Any) -> Any:
    """What was written of each position, [batch, count, ...]."""
    values = array.stack()
    axes = [1, 0, *range(2, values.shape.rank)]
    return tf.transpose(values, axes)


def _as_rows(values: Any) -> Any:
    """Values [batch, count, ...] as [batch * count, ...]."""
    shape = tf.concat([[-1], tf.shape(values)[2:]], 0)
    return tf.ensure_shape(tf.reshape(values, shape), [None, *values.shape[2:]])
