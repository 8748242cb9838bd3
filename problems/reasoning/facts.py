"""Facts over hops: a question that follows several of the facts which stand before it
(arXiv 2604.07822's task, with the facts in the context).

A fact is a head, a relation and a tail: "apb" says that the p of a is b. Every pair of a head and a
relation has one tail, drawn anew for each example, and the facts stand in any order. The question
":apq" asks at p for the p of a and at q for the q of that. Trained on up to 5 hops, judged on 10,
and on pairs of relations that no question of training has in a row (``pairs``: each relation with
the one behind it in "pqrsp"). Difficulty is the
number of hops.
"""

import dataclasses
from typing import Any, ClassVar, Unpack

import numpy as np
import tensorflow as tf

from ut_tf.data.problem import EvaluationSet
from ut_tf.problems.reasoning.codec import Places
from ut_tf.problems.reasoning.strings import NOTHING, Solved, Strings, StringSizes, StringTask
from ut_tf.symbols import FIRST_SYMBOL_ID

HEADS = "abcdef"
RELATIONS = "pqrs"
QUESTION = ":"
PAIRS = "pairs"
_FACTS = len(HEADS) * len(RELATIONS)
_BEFORE = 3 * _FACTS + 2
_FIRST_RELATION = len(HEADS)
_QUESTION_NUMBER = len(HEADS) + len(RELATIONS)


class Facts(StringTask):
    """Facts and questions, generated without end.

    Args:
      max_size: the most hops of training; their number is uniform from 1.
      name: the problem's name, for messages.
      **sizes: see ``StringSizes``.
    """

    symbols = HEADS + RELATIONS + QUESTION
    answers = HEADS
    size_word = "hops"
    unit = "hop"
    beyond = 2
    argument_defaults: ClassVar[StringSizes] = {
        **StringTask.argument_defaults,
        "validation_examples": 500,
        "test_examples": 1000,
    }
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", PAIRS)

    def __init__(self, max_size: int = 5, *, name: str = "", **sizes: Unpack[StringSizes]) -> None:
        sizes["validation_size"] = sizes.get("validation_size") or max_size + 2
        super().__init__(max_size, name or f"facts_{max_size}", **sizes)
        self.counts[PAIRS] = self.counts["test"]

    def draw(self, draws: np.random.Generator, sizes: Strings, width: int, split: str) -> Strings:
        count = len(sizes)
        tails = draws.integers(0, len(HEADS), [count, _FACTS])
        heads, relations = np.divmod(np.arange(_FACTS), len(RELATIONS))
        order = draws.permuted(np.tile(np.arange(_FACTS), [count, 1]), axis=1)
        facts = np.stack(
            [heads[order], relations[order] + _FIRST_RELATION, np.take_along_axis(tails, order, 1)],
            -1,
        ).reshape(count, -1)
        begins = draws.integers(0, len(HEADS), [count, 1])
        asked = _relations(draws, sizes, width, split == PAIRS)
        asked = np.where(np.arange(width) < sizes[:, None], asked + _FIRST_RELATION, NOTHING)
        return np.concatenate([facts, np.full([count, 1], _QUESTION_NUMBER), begins, asked], 1)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """Those of ``StringTask``, and held-out pairs in questions of the training's most hops."""
        sets = super().evaluation_sets(lengths)
        if lengths or self.max_size == 1:
            return sets
        return [*sets, dataclasses.replace(sets[0], name=PAIRS, split=PAIRS)]

    def places(self) -> Places:
        """Each relation of the question."""
        return Places(_asked, f"'{QUESTION}', a head, and a relation ({RELATIONS}) for each hop")

    def solve(self, strings: Strings) -> Solved:
        facts = strings[:, : 3 * _FACTS].reshape(len(strings), _FACTS, 3)
        rows = np.arange(len(strings))
        tails = np.zeros([len(strings), len(HEADS), len(RELATIONS)], np.int64)
        tails[rows[:, None], facts[..., 0], facts[..., 1] - _FIRST_RELATION] = facts[..., 2]
        at = strings[:, _BEFORE - 1]
        targets = np.full_like(strings, NOTHING)
        for place in range(_BEFORE, strings.shape[1]):
            relation = strings[:, place]
            at = tails[rows, at, np.maximum(relation - _FIRST_RELATION, 0)]
            targets[:, place] = np.where(relation >= 0, at, NOTHING)
        hops = np.maximum(np.arange(strings.shape[1]) - _BEFORE + 1, 0)
        return Solved(targets, np.broadcast_to(hops, strings.shape))


def _asked(inputs: Any) -> Any:
    """Whether each of inputs int32 [batch, length] is a relation behind the question's beginning,
    bool [batch, length].
    """
    number = inputs - FIRST_SYMBOL_ID
    in_question = tf.cumsum(tf.cast(number == _QUESTION_NUMBER, tf.int32), 1) > 0
    return in_question & (number >= _FIRST_RELATION) & (number < _QUESTION_NUMBER)


def _relations(draws: np.random.Generator, sizes: Strings, width: int, held_out: bool) -> Strings:
    """Draws the relations of questions, [examples, width], with or without a held-out pair."""
    count = len(sizes)
    asked = draws.integers(0, len(RELATIONS), [count, width])
    # Behind each relation the next one is held out.
    forced = draws.integers(1, np.maximum(sizes, 2)) if held_out else np.zeros(count, np.int64)
    for place in range(1, width):
        step = draws.integers(0 if held_out else 1, len(RELATIONS), count)
        step = np.where(forced == place, 0, step)
        asked[:, place] = (asked[:, place - 1] + 1 + step) % len(RELATIONS)
    return asked
