"""Answers at some positions alone: as text they are what the problem's data says, everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.reasoning.test_string_tasks import NOWHERE, rows
from ut_tf.errors import UserError
from ut_tf.inference.answers import Answers
from ut_tf.inference.asked import Asked
from ut_tf.problems.reasoning.chomsky import Chomsky
from ut_tf.problems.reasoning.facts import Facts
from ut_tf.problems.reasoning.p_hop import PHop
from ut_tf.problems.reasoning.prefix_sums import Parity
from ut_tf.problems.reasoning.strings import StringTask
from ut_tf.search.config import DecodeConfig

FEW: dict[str, Any] = {"train_examples": 30, "validation_examples": 20, "test_examples": 30}
TASKS: list[StringTask] = [
    Parity(12, **FEW),
    PHop(**FEW),
    Facts(**FEW),
    Chomsky("parity_check", 12, **FEW),
    Chomsky("odds_first", 12, **FEW),
    Chomsky("binary_addition", 12, **FEW),
]


class RightModel:
    """Answers with the targets where there are some and with a wrong symbol elsewhere, each with
    the same probability.
    """

    def __init__(self, task: StringTask, targets: Any) -> None:
        self.spec = task.spec(NOWHERE)
        self._targets = targets

    def __call__(self, *call: Any, **options: Any) -> Any:
        del call, options
        symbols = tf.where(self._targets == 0, self.spec.target_vocab_size - 1, self._targets)
        return 3.0 * tf.one_hot(symbols, self.spec.target_vocab_size)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_texts_of_answers_are_those_of_the_positions_that_are_asked(task: StringTask) -> None:
    expected = [answers.strip().encode() for _, answers, _ in rows(task, "test")]
    table = task.examples("test", NOWHERE)
    batch = dict(table.batch(tf.range(len(table))))
    codec = task.text_codec(Path())
    if not codec.answer_end:
        assert tf.reduce_all(codec.asked(batch["inputs"]) == (batch["targets"] != 0))
    asked = Asked(codec, batch["inputs"])
    assert codec.decode(asked.answer(batch["targets"])).numpy().tolist() == expected

    answers = Answers(RightModel(task, batch["targets"]), codec, DecodeConfig())
    texts, scores = answers.decode({"inputs": batch["inputs"]}, seed=0)
    assert texts[:, 0].numpy().tolist() == expected
    read = {"inputs": batch["inputs"], "targets": codec.encode_targets(tf.constant(expected))}
    np.testing.assert_allclose(answers.score(read), scores[:, 0], rtol=1e-5)
    longer = codec.encode_targets(tf.constant([text[:1] * 200 for text in expected]))
    assert np.isneginf(answers.score({**read, "targets": longer})).all()


def test_an_answer_ends_at_its_end_and_a_text_needs_one() -> None:
    codec = TASKS[-1].text_codec(Path())
    inputs = codec.encode(tf.constant(["01+1_____"]))["inputs"]
    outputs = codec.encode_targets(tf.constant(["000011.01"]))
    assert codec.decode(Asked(codec, inputs).answer(outputs)).numpy().tolist() == [b"11."]
    told = codec.target_errors(tf.constant(["11.", "11", "1.1.", "", "1.1"])).numpy().tolist()
    assert [bool(text) for text in told] == [False, True, True, False, True]


def test_an_input_that_asks_for_nothing_is_refused() -> None:
    codec = TASKS[1].text_codec(Path())
    with pytest.raises(UserError, match="'abcab' asks for no answer: expected '>' for each hop"):
        list(codec.read(["abcab>", "abcab"], "lines.txt"))
