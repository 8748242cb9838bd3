"""The cache of a decoder of attention blocks: who sees which position, and each block's keys and
values.

``layers/key_value_cache.py`` says how the hypotheses of a beam share it without copies. Here the
entry "visible" belongs to all blocks, and "blocks" is a list of one dictionary per block:
"attention" has keys and values, "transition" tensors [batch, beam_size, ...].
"""

from typing import Any

import tensorflow as tf

from ut_tf.layers.key_value_cache import MASKED, extended, nothing_visible
from ut_tf.search.contract import Cache, gather_examples, gather_hypotheses


def empty_cache(decoder: Any, batch_size: Any, capacity: Any, beam_size: int) -> Cache:
    """The cache of `decoder` before the first position, with room for `capacity` positions."""
    return {
        "visible": nothing_visible(batch_size, capacity, beam_size),
        "blocks": decoder.empty_caches(batch_size, capacity, beam_size),
    }


def reordered(cache: Cache, parents: Any) -> Cache:
    """The cache in which hypothesis k continues hypothesis parents[:, k], int32 [batch, beam_size].

    Keys and values are not moved: "visible" says whose they are.
    """
    blocks = [
        {**block, "transition": gather_hypotheses(block["transition"], parents)}
        for block in cache["blocks"]
    ]
    return {**cache, "visible": gather_hypotheses(cache["visible"], parents), "blocks": blocks}


def resized(cache: Cache, kept: Any, capacity: Any) -> Cache:
    """The cache of the examples `kept`, int32 [kept], with room for `capacity` positions."""
    cache = gather_examples(cache, kept)
    blocks = [
        {
            **block,
            "attention": tf.nest.map_structure(
                lambda entries: extended(entries, capacity, 0), block["attention"]
            ),
        }
        for block in cache["blocks"]
    ]
    visible = extended(cache["visible"], capacity, MASKED)
    return {**cache, "visible": visible, "blocks": blocks}
