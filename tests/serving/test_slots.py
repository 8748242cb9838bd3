"""Examples that come and go, one recurrent step at a time: in slots, in exports, in a server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import ut_tf
from tests.serving import toy
from tests.serving.python_model import PythonModel, served
from tests.serving.test_server import SIGNATURES, post
from tests.serving.toy import HALTING
from ut_tf.errors import UserError
from ut_tf.inference.batches import MOST_POSITIONS
from ut_tf.run import Run
from ut_tf.serving.batching import Batcher
from ut_tf.serving.export import export_run
from ut_tf.serving.rest_messages import Columns, Outputs
from ut_tf.serving.served_model import ServedModel
from ut_tf.serving.slots import Rows, Slots


def start(columns: Columns, length: int) -> Rows:
    """Texts take as many steps as they have letters "x"."""
    texts = columns["inputs"]
    width = max(length, *map(len, texts))
    ids = np.zeros([len(texts), width], np.int32)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = list(text)
    nothing = np.full([len(texts)], b"", object)
    return {"ids": ids, "left": np.sum(ids == ord("x"), 1), "error": nothing, "warning": nothing}


def step(rows: Rows) -> Rows:
    if np.any(rows["ids"] == ord("!")):
        raise FloatingPointError("not a number")
    left = rows["left"] - 1
    texts = [bytes(row[row > 0].astype(np.uint8)).upper() for row in rows["ids"]]
    outputs = np.array([*texts, None], object)[:-1]
    return {"left": left, "done": left <= 0, "outputs": outputs}


class Stepping(PythonModel):
    """Answers ``serving_default`` in slots; ``rows`` has the examples of each step."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        super().__init__(SIGNATURES)
        self.rows: list[int] = []
        self.gate = gate

    def slots(self, signature: str) -> Slots | None:
        return Slots(start, self.step) if signature == "serving_default" else None

    def answer(self, signature: str, columns: Columns) -> Outputs:
        if columns["inputs"]:
            return super().answer(signature, columns)
        return {name: np.zeros([0], object) for name in ("outputs", "error", "warning")}

    def step(self, rows: Rows) -> Rows:
        if self.gate is not None:
            assert self.gate.wait(20)
        self.rows.append(len(rows["ids"]))
        return step(rows)


@given(
    texts=st.lists(st.text("axy", min_size=1, max_size=6), max_size=12),
    arriving=st.lists(st.integers(0, 3), min_size=1),
    most=st.integers(1, 4),
)
def test_each_example_has_its_own_answer(texts: list[str], arriving: list[int], most: int) -> None:
    slots, waiting, answers = Slots(start, step), list(enumerate(texts)), {}
    for turn in range(200):
        count = min(slots.room(most), len(waiting), arriving[turn % len(arriving)] + (turn > 100))
        new, waiting = waiting[:count], waiting[count:]
        if new:
            slots.add([key for key, _ in new], {"inputs": [text.encode() for _, text in new]})
        assert len(slots.held) <= most
        answers |= dict(slots.advance() if slots.held else ())
    assert {key: list(found["outputs"]) for key, found in answers.items()} == {
        key: [text.upper().encode()] for key, text in enumerate(texts)
    }


def test_room_is_bounded_by_positions_and_given_up_examples_leave() -> None:
    slots = Slots(start, step)
    slots.add([1, 2], {"inputs": [b"xxx" + b"a" * (MOST_POSITIONS // 2), b"xx"]})
    assert slots.room(32) == 0
    assert (slots.held, slots.keys) == ([1], [1, 2])
    slots.drop(lambda key: key == 1)
    assert slots.held == [2]
    assert [key for _ in range(2) for key, _ in slots.advance()] == [2]


def test_a_long_text_slows_those_after_it_for_few_steps() -> None:
    widths = []

    def recorded(rows: Rows) -> Rows:
        widths.append(rows["ids"].shape[1])
        return step(rows)

    slots = Slots(start, recorded)
    slots.add([0], {"inputs": [b"x" + b"a" * 4000]})
    for turn in range(1, 30):
        if slots.room(32):
            slots.add([turn], {"inputs": [b"xxa"]})
        slots.advance()
    # One began beside it, and leaves before the others begin.
    assert widths == [4001] * 2 + [3] * 27


def check_slots(model: ServedModel, signature: str, columns: Columns) -> Columns:
    """Checks that examples that arrive one by one are answered in slots as in a batch; returns the
    answers of the batch.
    """
    expected = model.answer(signature, columns)
    slots = model.slots(signature)
    assert slots is not None
    waiting = [*range(len(next(iter(columns.values()))))]
    answers: dict[int, Any] = {}
    steps: dict[int, int] = {}
    while waiting or slots.held:
        if waiting and slots.room(3):
            key = waiting.pop(0)
            slots.add([key], {name: [texts[key]] for name, texts in columns.items()})
        for key in slots.held:
            steps[key] = steps.get(key, 0) + 1
        answers |= dict(slots.advance())
    assert len({*steps.values()}) > 1
    for key, outputs in answers.items():
        assert outputs.keys() == expected.keys()
        for name, values in outputs.items():
            if values.dtype == object:
                assert values[0] == expected[name][key]
            else:
                np.testing.assert_allclose(values[0], expected[name][key], atol=1e-5)
    return {name: [*values] for name, values in expected.items()}


@pytest.mark.slow
def test_the_saved_sudoku_answers_in_slots_as_in_batches(tmp_path: Path) -> None:
    run = ut_tf.load("sudoku4").run
    names = ["serving_default", "start"]
    model = ServedModel(export_run(run, tmp_path, signatures=names), 1)
    boards = [b"1..4.4.22..3.3..", b"", b"12x", b"....3.1.4.2..1.4", b" ", b"132. .231 2.13 314."]
    answers = check_slots(model, "serving_default", {"inputs": boards})
    assert [bool(error) for error in answers["error"]] == [board == b"12x" for board in boards]
    assert answers["outputs"][1] == answers["outputs"][4] == b""
    assert answers["outputs"][5] == b"1324 4231 2413 3142"


def test_start_and_step_of_others_are_their_own(tmp_path: Path) -> None:
    module = tf.Module()
    texts, number = tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.int32)
    same = tf.function(lambda inputs: {"outputs": inputs}).get_concrete_function(texts)
    other = tf.function(lambda length: {"done": length}).get_concrete_function(number)
    for name, step_ in (("served", same), ("refused", other)):
        signatures = {"serving_default": same, "start": same, "step": step_}
        tf.saved_model.save(module, str(tmp_path / name), signatures=signatures)
    model = ServedModel(tmp_path / "served", 1)
    assert {*model.signatures} == {*signatures} and model.slots("serving_default") is None
    with pytest.raises(UserError, match="signature step takes length that is no list of texts"):
        ServedModel(tmp_path / "refused", 1)


@pytest.mark.slow
def test_exports_without_steps_are_served_in_batches(tmp_path: Path) -> None:
    run = toy.untrained_run(tmp_path, "letter_questions", "halting=none,num_steps=1")
    run, folder = Run.load(run.output_dir), tmp_path / "export"
    with pytest.raises(UserError, match=r"'start'.* It has serving_default, classify, ponder"):
        export_run(run, folder, signatures=["start"])
    model = ServedModel(export_run(run, folder, signatures=["classify"], warmup=False), 1)
    assert model.slots("classify") is None
    assert model.answer("classify", {"story": [b"ab"], "question": [b"c"]})["outputs"][0]


def test_steps_are_exported_beside_an_answer(tmp_path: Path) -> None:
    run = toy.untrained_run(tmp_path, "letter_questions", HALTING)
    with pytest.raises(UserError, match=r"`signatures`=start: .* name serving_default as well"):
        export_run(Run.load(run.output_dir), tmp_path / "export", signatures=["start"])


def test_requests_share_steps_and_each_has_its_answer() -> None:
    gate = threading.Event()
    model = Stepping(gate)
    with served(model) as server, ThreadPoolExecutor(9) as pool:
        texts = ["x" * count + "a" * (count % 3) for count in range(1, 9)]
        replies = [pool.submit(post, server, {"instances": [text]}) for text in texts]
        other = pool.submit(post, server, {"signature_name": "ponder", "instances": ["b"]})
        gate.set()
        assert [reply.result()[1]["predictions"][0]["outputs"] for reply in replies] == [
            text.upper() for text in texts
        ]
        assert other.result()[0] == 200
        assert max(model.rows) > 1
        assert sum(model.rows) == sum(range(1, 9))
        status, reply = post(server, {"instances": ["xa", "xxxxxx"] * 40})
        assert (status, len(reply["predictions"])) == (200, 80)


def test_an_empty_request_beside_others_is_answered_apart() -> None:
    gate = threading.Event()
    model = Stepping(gate)
    with served(model) as server, ThreadPoolExecutor(4) as pool:
        bodies: list[Any] = [{"inputs": texts} for texts in (["xx"], [], ["xxx"], [])]
        replies = [pool.submit(post, server, body) for body in bodies]
        gate.set()
        answers = [reply.result()[1]["outputs"]["outputs"] for reply in replies]
        assert answers == [["XX"], [], ["XXX"], []]
    # None of those with steps was answered whole.
    assert model.calls == [] and sum(model.rows) == 5


def test_a_failing_example_spoils_no_other_is_told_once_and_the_deadline_holds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with served(Stepping()) as server, ThreadPoolExecutor(4) as pool:
        for texts in (["xxx", "fail!", "xx"], ["fail!"]):
            replies = [pool.submit(post, server, {"instances": [text]}) for text in texts]
            assert [reply.result()[0] for reply in replies] == [200] * len(texts)
    told = "version 3, signature serving_default: recurrent steps failed (FloatingPointError: not a"
    assert capsys.readouterr().err.count(told) == 1
    gate = threading.Event()
    with served(Stepping(gate), batcher=Batcher(timeout=0.2)) as server:
        assert post(server, {"instances": ["xx"]})[0] == 504
        gate.set()
        assert post(server, {"instances": ["x"]})[1]["predictions"][0]["outputs"] == "X"
