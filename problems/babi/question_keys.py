"""Questions of a split as keys: equal where a model reads the same, or the same but for an exchange
of words.

How it is used::

    plain = question_keys(split, np.arange(4), max_facts=70)
    # What a question has in common with all its exchanges.
    common = common_keys(split, np.arange(4), 70, words, answers)
    exchange = spare_held_out(exchange, split, alike, held_out=plain, max_facts=70)
"""

import dataclasses
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ut_tf.data.chunks import chunks
from ut_tf.problems.babi.examples import QuestionSplit
from ut_tf.problems.babi.exchange import KINDS, Kind, WordExchange
from ut_tf.symbols import FIRST_SYMBOL_ID

Ids = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.integer]
_AT_ONCE = 1000


def question_keys(split: QuestionSplit, numbers: Numbers, max_facts: int) -> list[bytes]:
    """A key for each of the questions with these numbers: its words and those of its facts."""
    return [key for rows in _rows(split, numbers, max_facts) for key in _keys(rows)]


def common_keys(
    split: QuestionSplit,
    numbers: Numbers,
    max_facts: int,
    words: Sequence[str],
    answers: Sequence[str],
) -> list[bytes]:
    """As ``question_keys``, equal for questions that are exchanges of each other.

    Args:
      split: the questions.
      numbers: of questions of one task.
      max_facts: facts that are read before a question.
      words: of the vocabulary, from FIRST_SYMBOL_ID on.
      answers: by their classes.
    """
    tasks = np.unique(split.tasks[numbers]).tolist()
    assert len(tasks) <= 1
    ids = {word: number for number, word in enumerate(words, start=FIRST_SYMBOL_ID)}
    known = (kind.known(words, answers) for task in tasks for kind in KINDS[task])
    kinds = [kind for kind in known if kind.things]
    made: list[bytes] = []
    for rows in _rows(split, numbers, max_facts):
        forms = rows
        for kind in kinds:
            if not kind.orders:
                forms = _by_first_place(forms, _ids_of(kind, ids))
        variants = [forms]
        for kind in kinds:
            if kind.orders:
                of_kind = _ids_of(kind, ids)
                variants = [
                    _in_order(form, of_kind, np.broadcast_to(order, (len(form), len(order))))
                    for form in variants
                    for order in kind.orders
                ]
        made += map(min, zip(*map(_keys, variants), strict=True))
    return made


def spare_held_out(
    exchange: WordExchange,
    split: QuestionSplit,
    alike: Numbers,
    held_out: Collection[bytes],
    max_facts: int,
) -> WordExchange:
    """The exchange, which leaves training questions as they are that would become held-out ones.

    Args:
      exchange: of an epoch.
      split: the training questions, none of which is a held-out one as it stands.
      alike: numbers of the questions that some exchange makes a held-out one.
      held_out: keys of the questions that are not to be trained on.
      max_facts: facts that are read before a question.
    """
    numbers = exchange.numbers.copy()
    for part, rows in zip(chunks(alike, _AT_ONCE), _rows(split, alike, max_facts), strict=True):
        chosen = np.array(part, np.int64)
        made = np.take_along_axis(exchange.word_ids[numbers[chosen]], rows, axis=1)
        spared = [key in held_out for key in _keys(made.astype(np.int32))]
        numbers[chosen[spared]] = 0
    return dataclasses.replace(exchange, numbers=numbers)


def _rows(split: QuestionSplit, numbers: Numbers, max_facts: int) -> Iterator[Ids]:
    """Yields the words of questions, a part of them at a time: int32 [questions, words], the
    question's before its facts'.
    """
    width = split.words.shape[1]
    for part in chunks(numbers.tolist(), _AT_ONCE):
        chosen = np.array(part)
        ends = split.ends[chosen]
        begins = np.maximum(split.stories[chosen], ends - max_facts)
        places = begins[:, None] + np.arange((ends - begins).max(initial=0))
        facts = np.where(
            places < ends[:, None],
            split.statements[np.minimum(places, len(split.statements) - 1)],
            len(split.words) - 1,
        )
        sentences = np.concatenate([split.questions[chosen][:, None], facts], axis=1)
        yield split.words[sentences].reshape(len(part), sentences.shape[1] * width)


def _keys(rows: Ids) -> list[bytes]:
    """The rows as bytes, without the padding at their ends."""
    lengths = rows.shape[1] - np.argmax(rows[:, ::-1] != 0, axis=1)
    return [row[:length].tobytes() for row, length in zip(rows, lengths, strict=True)]


def _ids_of(kind: Kind, ids: dict[str, int]) -> Ids:
    """The ids of the things of a kind, int32 [things, forms], without forms that are no words."""
    forms = [[ids.get(form, 0) for form in thing] for thing in kind.things]
    table = np.array(forms, np.int32)
    return table[:, (table > 0).all(axis=0)]


def _by_first_place(rows: Ids, kind: Ids) -> Ids:
    """The rows with the thing that comes first in the place of the first thing, and so on."""
    first = np.stack([_first_places(rows, forms) for forms in kind], axis=1)
    orders = np.argsort(np.argsort(first, axis=1, kind="stable"), axis=1, kind="stable")
    return _in_order(rows, kind, orders)


def _first_places(rows: Ids, forms: Ids) -> npt.NDArray[np.intp]:
    there = np.isin(rows, forms)
    return np.asarray(np.where(there.any(axis=1), there.argmax(axis=1), rows.shape[1]))


def _in_order(rows: Ids, kind: Ids, orders: npt.NDArray[np.integer]) -> Ids:
    """The rows with thing `orders`[row, t] in the place of thing t."""
    made = rows.copy()
    for thing, forms in enumerate(kind):
        for form, number in enumerate(forms):
            row, column = np.nonzero(rows == number)
            made[row, column] = kind[orders[row, thing], form]
    return made
