"""Words of training stories exchanged for others of their kind.

A story about Mary in the kitchen could as well be one about Daniel in the garden. In every epoch,
each training question is read with its people, places, things and verbs exchanged, in the same way
in facts, question and answer. A thousand questions then teach rules; they cannot be learned by
heart.

How it is used::

    exchange = WordExchange.drawn(tasks, words, answers, seed=1, epoch=0)
    ids, classes = exchange.exchanged(exchange.numbers[:8], ids, classes)

A kind is a list of things that may stand for one another. A thing has one or more forms, "mouse"
and "mice", that are exchanged together. The points of the compass turn and mirror, so that opposite
ones stay opposite. Words that a task knows something of stay: times of the day, wishes and what
fulfils them, boxes that go into one another.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.loading import read_yaml
from ut_tf.symbols import FIRST_SYMBOL_ID

_DRAWN = 256
"""Exchanges drawn for each task and epoch; a question has one of them."""


@dataclass(frozen=True)
class Kind:
    """Things that may stand for one another.

    Args:
      things: the forms of each thing, which all have equally many.
      orders: the ways to put the things, as their numbers; empty: any.
    """

    things: tuple[tuple[str, ...], ...]
    orders: tuple[tuple[int, ...], ...] = ()

    def known(self, words: Collection[str], answers: Collection[str]) -> "Kind":
        """The kind without the things whose first form is no word or of which another form is
        neither a word nor in an answer; without any, where it has orders, which are those of all
        its things.
        """
        symbols = {*words, *(part for answer in answers for part in answer.split(","))}
        things = tuple(forms for forms in self.things if forms[0] in words and {*forms} <= symbols)
        if self.orders:
            return self if things == self.things else Kind(())
        return Kind(things)

    def drawn(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        """Draws [count, things]: in each exchange the number of the thing that stands for each."""
        if self.orders:
            return np.array(self.orders)[generator.integers(len(self.orders), size=count)]
        places = np.tile(np.arange(len(self.things)), (count, 1))
        return generator.permuted(places, axis=1)


@dataclass(frozen=True)
class WordExchange:
    """The exchanges of an epoch.

    Args:
      numbers: int32 [questions]: the exchange of each question; 0 leaves all words as they are.
      word_ids: int32 [exchanges, ids]: the id that stands for each id.
      classes: int32 [exchanges, answers]: the class that stands for each answer; -1 where no
        answer is written so.
    """

    numbers: npt.NDArray[np.int32]
    word_ids: npt.NDArray[np.int32]
    classes: npt.NDArray[np.int32]

    @classmethod
    def drawn(
        cls,
        tasks: npt.NDArray[Any],
        words: Sequence[str],
        answers: Sequence[str],
        seed: int,
        epoch: int,
    ) -> Self:
        """The exchanges of an epoch, which (seed, epoch) decide.

        Args:
          tasks: [questions]: the task of each question.
          words: of the vocabulary, from FIRST_SYMBOL_ID on.
          answers: by their classes.
        """
        generator = np.random.default_rng([seed % 2**63, epoch])
        ids = {word: number for number, word in enumerate(words, start=FIRST_SYMBOL_ID)}
        numbers = np.zeros(len(tasks), np.int32)
        word_ids = [np.arange(FIRST_SYMBOL_ID + len(words))[np.newaxis]]
        classes = [np.arange(len(answers))[np.newaxis]]
        for task in np.unique(tasks).tolist():
            asked = tasks == task
            first = sum(map(len, word_ids))
            numbers[asked] = first + generator.integers(_DRAWN, size=int(asked.sum()))
            kinds = [kind.known(words, answers) for kind in KINDS[task]]
            exchanged = _exchanged_words(kinds, generator)
            word_ids.append(_exchanged_ids(exchanged, ids, word_ids[0]))
            classes.append(np.array([_exchanged_answers(one, answers) for one in exchanged]))
        return cls(
            numbers,
            np.concatenate(word_ids).astype(np.int32),
            np.concatenate(classes).astype(np.int32),
        )

    def exchanged(self, numbers: Any, ids: Any, classes: Any) -> tuple[Any, Any]:
        """The exchanged ids and classes; an example whose new answer nobody writes keeps its words.

        Args:
          numbers: int32 [batch]: the exchange of each example.
          ids: int32 [batch, rows, words].
          classes: int32 [batch].
        """
        there = tf.gather_nd(self.classes, tf.stack([numbers, classes], 1))
        chosen = tf.where(there < 0, 0, numbers)
        offsets = (chosen * self.word_ids.shape[1])[:, tf.newaxis, tf.newaxis]
        return tf.gather(self.word_ids.ravel(), offsets + ids), tf.where(there < 0, classes, there)


def _exchanged_words(kinds: Sequence[Kind], generator: np.random.Generator) -> list[dict[str, str]]:
    """For each exchange the form that stands for each form."""
    exchanged: list[dict[str, str]] = [{} for _ in range(_DRAWN)]
    for kind in kinds:
        for one, drawn in zip(exchanged, kind.drawn(generator, _DRAWN), strict=True):
            for forms, other in zip(kind.things, drawn.tolist(), strict=True):
                one.update(zip(forms, kind.things[other], strict=True))
    return exchanged


def _exchanged_ids(
    exchanged: list[dict[str, str]], ids: dict[str, int], same: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    rows = np.repeat(same, len(exchanged), axis=0)
    for row, one in zip(rows, exchanged, strict=True):
        for word, other in one.items():
            # "n" is an answer and no word.
            if word in ids and other in ids:
                row[ids[word]] = ids[other]
    return rows


def _exchanged_answers(exchanged: dict[str, str], answers: Sequence[str]) -> list[int]:
    """The class of each answer with its words exchanged; -1: there is none."""
    classes = {answer: number for number, answer in enumerate(answers)}
    return [
        classes.get(",".join(exchanged.get(word, word) for word in answer.split(",")), -1)
        for answer in answers
    ]


def _kind(things: Any) -> Kind:
    """The kind that the file writes as words, or as things of several forms."""
    if isinstance(things, str):
        return Kind(tuple((word,) for word in things.split()))
    return Kind(tuple(tuple(forms.split()) for forms in things))


_READ = read_yaml(Path(__file__).with_suffix(".yaml"))
_TURNED_AND_MIRRORED = tuple(
    tuple((start + step * number) % 4 for number in range(4))
    for start in range(4)
    for step in (1, -1)
)
_KINDS = {name: _kind(things) for name, things in _READ["kinds"].items()}
_KINDS["compass"] = dataclasses.replace(_KINDS["compass"], orders=_TURNED_AND_MIRRORED)
KINDS: Mapping[int, tuple[Kind, ...]] = {
    task: tuple(_KINDS[name] for name in names.split()) for task, names in _READ["tasks"].items()
}
"""By task what may be exchanged in its stories."""
