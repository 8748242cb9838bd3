"""Subwords split at random, so that training shows each word in several spellings.

How it is used::

    parts = subword_parts(read_subwords(vocab_file))            # int32 [vocab_size, 2]
    side = split_at_random(side, parts, 0.1, np.random.default_rng([seed, epoch]))

How it works: a subword of a byte pair encoding is split, with a given probability, into the two
that it was merged from; these are split likewise, and so on down to characters. BPE-dropout
(Provilkov et al., arXiv 1910.13267) leaves out merges with that probability while it encodes text.
Splitting needs the ids alone, and numpy's draws, which a resumed run repeats.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ut_tf.data.corpus.encoded_pairs import PairIds, Side
from ut_tf.data.text.subwords import Subwords
from ut_tf.errors import UserError

Parts = npt.NDArray[np.int32]
# Ids split at once: each takes some thirty bytes while it is.
_IDS_AT_ONCE = 1 << 22


def subword_parts(subwords: Any) -> Parts:
    """The two subwords that each was merged from, int32 [vocab_size, 2]; zeros: it was not merged.

    Args:
      subwords: of a sentencepiece model.

    Raises:
      UserError: the vocabulary is no byte pair encoding.
    """
    ids = subwords.merges() if isinstance(subwords, Subwords) else {}
    if not ids:
        raise UserError(
            "`subword_dropout` needs a byte pair encoding: set it to 0, or give `subword_model`=bpe"
            " or a sentencepiece model of that kind as `vocab_file`."
        )
    ranks = {piece: rank for rank, piece in enumerate(ids)}
    parts = np.zeros((subwords.size, 2), np.int32)
    for piece, number in ids.items():
        symbols = _merged(piece, ranks)
        if len(symbols) == 2 and all(symbol in ids for symbol in symbols):
            parts[number] = [ids[symbol] for symbol in symbols]
    return parts


def split_pairs_at_random(
    pairs: PairIds, parts: Parts, rate: float, rng: np.random.Generator
) -> PairIds:
    """``split_at_random`` of both sides."""
    return PairIds(
        split_at_random(pairs.sources, parts, rate, rng),
        split_at_random(pairs.targets, parts, rate, rng),
    )


def split_at_random(side: Side, parts: Parts, rate: float, rng: np.random.Generator) -> Side:
    """The same texts in subwords of which some are split.

    Args:
      side: the ids.
      parts: from ``subword_parts``.
      rate: the probability that a subword which can be split is split.
      rng: draws which ones.
    """
    ends = np.cumsum(side.lengths, dtype=np.int64)
    count = int(ends[-1] // _IDS_AT_ONCE) + 1 if len(ends) else 1
    cuts = np.searchsorted(ends, np.arange(1, count, dtype=np.int64) * _IDS_AT_ONCE)
    blocks = zip(
        np.split(side.ids, np.concatenate([[0], ends])[cuts]),
        np.split(side.lengths, cuts),
        strict=True,
    )
    split = [_split_block(Side(*block), parts, rate, rng) for block in blocks]
    return Side(
        np.concatenate([block.ids for block in split]),
        np.concatenate([block.lengths for block in split]),
    )


def _split_block(side: Side, parts: Parts, rate: float, rng: np.random.Generator) -> Side:
    """``split_at_random`` of texts whose ids and their rows fit into memory several times."""
    ids = side.ids.astype(np.int32)
    rows = np.repeat(np.arange(len(side.lengths), dtype=np.int32), side.lengths)
    fresh = np.ones(len(ids), np.bool_)
    while fresh.any():
        split = fresh & (parts[ids, 0] > 0)
        split[split] = rng.random(int(split.sum())) < rate
        pieces = 1 + split
        first = (np.cumsum(pieces) - pieces)[split]
        halves = parts[ids[split]]
        ids, rows, fresh = (np.repeat(values, pieces) for values in (ids, rows, split))
        ids[first], ids[first + 1] = halves[:, 0], halves[:, 1]
    lengths = np.bincount(rows, minlength=len(side.lengths)).astype(side.lengths.dtype)
    return Side(ids.astype(side.ids.dtype), lengths)


def _merged(piece: str, ranks: dict[str, int]) -> list[str]:
    """The symbols of `piece` before the last merge of byte pair encoding."""
    symbols = list(piece)
    while len(symbols) > 2:
        merges = [
            (ranks[symbols[place] + symbols[place + 1]], place)
            for place in range(len(symbols) - 1)
            if symbols[place] + symbols[place + 1] in ranks
        ]
        if not merges:
            break
        place = min(merges)[1]
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
    return symbols
