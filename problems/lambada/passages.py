"""Cuts of LAMBADA's texts: windows for a language model, and passages whose last word stands in
them before.

How it works: unknown words are numbered inside each window or passage, in the order in which they
first come: two different names that the vocabulary lacks stay different, and a name that comes
again can be guessed. A passage for reading ends with the last word of a sentence; its context are
the sentences before that one, as few as make fifty words, as in LAMBADA itself.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ut_tf.problems.lambada.corpus import (
    ABSENT_ID,
    FIRST_NUMBERED_ID,
    UNKNOWN_ID,
    Ids,
    Places,
    Texts,
)
from ut_tf.symbols import FIRST_SYMBOL_ID

_ENDS = (".", "!", "?")
_CLOSINGS = ("''", "'", "-rrb-")
LEAST_CONTEXT = 50
"""Words before the question of a passage at least."""
_SHORTEST_WINDOW = 8
# The most frequent words, and marks, are no words to be guessed: 98 % of LAMBADA's are rarer.
_COMMON = 200
_AT_ONCE = 8192
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Kinds:
    """The kinds of the ids of a vocabulary.

    Args:
      ends, closings: ids of the marks that end a sentence, and of those that may close behind them.
      guessed: bool [vocab_size], which are words that are not too common to be guessed.
    """

    ends: Places
    closings: Places
    guessed: Flags

    @classmethod
    def of(cls, words: list[str]) -> "_Kinds":
        """The kinds of `words`, symbols from FIRST_SYMBOL_ID on."""
        ends, closings = (
            FIRST_SYMBOL_ID
            + np.array([number for number, word in enumerate(words) if word in wanted], np.int64)
            for wanted in (_ENDS, _CLOSINGS)
        )
        common = (
            FIRST_SYMBOL_ID
            + next((number for number, word in enumerate(words) if not word.startswith("<")), 0)
            + _COMMON
        )
        guessed = np.array(
            [False] * FIRST_SYMBOL_ID + [word.replace("-", "").isalpha() for word in words],
            np.bool_,
        )
        guessed[:common] = False
        return cls(ends, closings, guessed)


@dataclass(frozen=True)
class Passages:
    """Places of passages among the words of texts, int64 [passages] each.

    Args:
      starts: where the context begins.
      questions: where the last sentence begins.
      answers: where its last word stands.
    """

    starts: Places
    questions: Places
    answers: Places

    def __len__(self) -> int:
        return len(self.starts)

    def taken(self, numbers: npt.NDArray[Any]) -> "Passages":
        """The passages with these numbers."""
        return Passages(self.starts[numbers], self.questions[numbers], self.answers[numbers])

    def moved(self, by: Any) -> "Passages":
        """The passages at places that are larger by a number, or by one for each passage."""
        return Passages(self.starts + by, self.questions + by, self.answers + by)


def windows(starts: Places, size: int, rng: np.random.Generator) -> tuple[Places, Places]:
    """Returns begin and length, int64 [windows] each, of windows that cover every text once, in an
    order drawn at random.

    Args:
      starts: of the texts, and the end of the last.
      size: words in a window; at a text's begin and end it has fewer, and the rests shorter than
        eight words are left out.
      rng: draws where the first whole window of each text begins, and the order.
    """
    begins, ends = [], []
    for start, end in itertools.pairwise(starts):
        cuts = np.arange(start + rng.integers(size), end, size)
        begins.append(np.concatenate([[start], cuts]))
        ends.append(np.concatenate([cuts, [end]]))
    begin, length = np.concatenate(begins), np.concatenate(ends) - np.concatenate(begins)
    order = rng.permutation(np.flatnonzero(length >= min(_SHORTEST_WINDOW, size)))
    return begin[order], length[order]


def number_unknown(words: Any, vocab_size: int, unknown_words: int) -> tuple[Any, Any]:
    """Returns ids, and which of them are an unknown word that has not come before.

    Args:
      words: int32 [batch, length], ids, and from `vocab_size` on numbers of unknown words.
      vocab_size: all ids.
      unknown_words: how many different ones of a row are told apart, by the ids from
        FIRST_NUMBERED_ID on; the others are UNKNOWN_ID.

    Returns:
      int32 and bool [batch, length].
    """
    import tensorflow as tf

    unknown = words >= vocab_size
    places = tf.range(tf.shape(words)[1])
    same = tf.equal(words[:, :, tf.newaxis], words[:, tf.newaxis, :])
    first = tf.reduce_min(tf.where(same, places, tf.shape(words)[1]), axis=2)
    fresh = unknown & tf.equal(first, places)
    numbers = tf.gather(tf.cumsum(tf.cast(fresh, tf.int32), axis=1), first, batch_dims=1)
    numbered = tf.where(numbers <= unknown_words, FIRST_NUMBERED_ID - 1 + numbers, UNKNOWN_ID)
    return tf.where(unknown, numbered, words), fresh


def hide_last(ids: Any, fresh: Any, lengths: Any) -> Any:
    """Returns `ids` with ABSENT_ID in place of a last word that cannot be told: guessing that it is
    unknown must not count as right.

    Args:
      ids, fresh: from ``number_unknown``, [batch, length].
      lengths: int32 [batch], words of each row.
    """
    import tensorflow as tf

    last = tf.equal(tf.range(tf.shape(ids)[1])[tf.newaxis], lengths[:, tf.newaxis] - 1)
    return tf.where(last & (fresh | tf.equal(ids, UNKNOWN_ID)), ABSENT_ID, ids)


def given_passages(texts: Texts, words: list[str]) -> Passages:
    """LAMBADA's own passages: the question is what follows the last sentence end; without one there
    is a context alone.
    """
    begins = _sentence_starts(texts, _Kinds.of(words))
    answers = texts.starts[1:] - 1
    questions = begins[np.searchsorted(begins, answers, side="right") - 1]
    return Passages(
        texts.starts[:-1], np.where(questions > texts.starts[:-1], questions, answers), answers
    )


def cut_passages(texts: Texts, words: list[str], longest: int) -> Passages:
    """All passages of books whose last word stands in the context.

    Args:
      texts: the books.
      words: symbols from FIRST_SYMBOL_ID on, the most frequent words first.
      longest: words of a passage at most.
    """
    kinds = _Kinds.of(words)
    # Book by book: arrays over all words of the published novels would fill a small machine's
    # memory.
    of_books = [
        _cut_book(texts.words[start:end], kinds, longest).moved(start)
        for start, end in itertools.pairwise(texts.starts)
    ]
    return Passages(
        *(
            np.concatenate([getattr(of_book, side) for of_book in of_books])
            for side in ("starts", "questions", "answers")
        )
    )


def answerable(texts: Texts, passages: Passages) -> Passages:
    """The passages whose last word stands in the context."""
    answered = np.zeros(len(passages), np.bool_)
    for first in range(0, len(passages), _AT_ONCE):
        batch = passages.taken(np.arange(first, min(first + _AT_ONCE, len(passages))))
        places = batch.starts[:, np.newaxis] + np.arange((batch.questions - batch.starts).max())
        inside = places < batch.questions[:, np.newaxis]
        same = (
            texts.words[np.minimum(places, len(texts.words) - 1)]
            == texts.words[batch.answers][:, np.newaxis]
        )
        answered[first : first + len(batch)] = (same & inside).any(axis=1)
    return passages.taken(np.flatnonzero(answered))


def gather_words(texts: Texts, passages: Passages) -> tuple[Texts, Passages]:
    """The words of the passages alone, in a row, and where the passages stand among them."""
    sizes = passages.answers - passages.starts + 1
    starts = np.cumsum([0, *sizes], dtype=np.int64)
    places = np.repeat(passages.starts - starts[:-1], sizes) + np.arange(starts[-1])
    return Texts(np.asarray(texts.words[places]), starts), passages.moved(
        starts[:-1] - passages.starts
    )


def _cut_book(book: Ids, kinds: _Kinds, longest: int) -> Passages:
    texts = Texts(book, np.array([0, len(book)], np.int64))
    begins = _sentence_starts(texts, kinds)
    answers = _last_words(texts, kinds, begins)
    contexts = np.searchsorted(begins, begins - LEAST_CONTEXT, side="right") - 1
    starts = begins[np.maximum(contexts, 0)]
    kept = np.flatnonzero((answers > begins) & (contexts >= 0) & (answers - starts < longest))
    return answerable(texts, Passages(starts[kept], begins[kept], answers[kept]))


def _sentence_starts(texts: Texts, kinds: _Kinds) -> Places:
    """The positions where sentences begin: after a sentence's end and its closing marks."""
    behind, closing = np.isin(texts.words, kinds.ends), np.isin(texts.words, kinds.closings)
    for _ in range(3):
        behind[1:] |= closing[1:] & behind[:-1]
    first = np.zeros(len(texts.words), np.bool_)
    first[1:] = behind[:-1] & ~behind[1:]
    first[texts.starts[:-1]] = True
    return np.flatnonzero(first).astype(np.int64)


def _last_words(texts: Texts, kinds: _Kinds, begins: Places) -> Places:
    """The position of the word that ends each sentence; -1 where it must not be guessed."""
    marks = np.isin(texts.words, [*kinds.ends, *kinds.closings])
    place = np.maximum.accumulate(np.where(marks, -1, np.arange(len(texts.words))))
    ends = np.append(begins[1:], len(texts.words))
    answers = place[ends - 1]
    ids = texts.words[answers]
    right = (ids >= len(kinds.guessed)) | kinds.guessed[np.minimum(ids, len(kinds.guessed) - 1)]
    # A sentence that does not end with a mark is cut off by its book's end.
    return np.where(right & (answers < ends - 1), answers, -1)
