"""Shards of a long input: resumed, refused, whole or absent, joined in order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.inference.shards import Given, Shards

EXAMPLES: list[Given] = [((f"line {number}",), None) for number in range(1, 24)]
WHOLE = "".join(f"{number}: line {number}\n" for number in range(1, 24))
# Answers a shard until it is killed in the midst of it.
KILLED = """
import sys, time
from pathlib import Path
from ut_tf.inference.shards import Shards

def answer(examples, first):
    for number, (texts, _) in enumerate(examples, first):
        yield f"{number}: {texts[0]}"
        if number == first + 2:
            print("halfway", flush=True)
            time.sleep(60)

Shards(Path(sys.argv[1])).answer(1, answer)
"""


def answer(examples: Sequence[Given], first: int) -> list[str]:
    return [f"{number}: {texts[0]}" for number, (texts, _) in enumerate(examples, first)]


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    shards = Shards(tmp_path / "out.shards")
    shards.divide(EXAMPLES, 5, {"seed": 0})
    return shards


def test_shards_answered_in_any_order_are_joined_in_the_order_of_the_input(
    shards: Shards, tmp_path: Path
) -> None:
    assert (shards.count, shards.examples) == (5, 23)
    for number in (3, 0, 4, 1, 2):
        shards.answer(number, answer)
    shards.join(tmp_path / "out")
    assert (tmp_path / "out").read_text() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_answered_is_passed_over_and_what_was_removed_is_answered_again(
    shards: Shards, tmp_path: Path
) -> None:
    for number in range(5):
        shards.answer(number, answer)
    (shards.folder / "output-000002.txt").unlink()
    shards.divide(iter(()), 5, {"seed": 0})  # Not read again.
    assert shards.unfinished() == [2]
    with pytest.raises(UserError, match="1 shard of 5 have no answers yet, the first of them 2"):
        shards.join(tmp_path / "out")
    answered: list[int] = []
    for number in range(5):
        shards.answer(number, lambda some, first: answered.append(first) or answer(some, first))
    assert answered == [11]
    shards.join(tmp_path / "out")
    assert (tmp_path / "out").read_text() == WHOLE


def test_another_job_in_the_same_folder_is_refused(shards: Shards) -> None:
    shards.answer(0, answer)
    with pytest.raises(UserError, match=r"shards of another job \(seed: 0 -> 1\): give what"):
        shards.divide(EXAMPLES, 5, {"seed": 1})
    assert shards.unfinished() == [1, 2, 3, 4]


def test_an_input_that_was_not_divided_to_its_end_is_divided_again(shards: Shards) -> None:
    shards.answer(0, answer)
    (shards.folder / "plan.json").unlink()
    shards.divide(EXAMPLES[5:], 5, {"seed": 1})
    assert (shards.examples, shards.unfinished()) == (18, [0, 1, 2, 3])
    assert json.loads((shards.folder / "plan.json").read_text())["identity"]["seed"] == 1


def test_a_killed_worker_leaves_no_half_shard(shards: Shards, tmp_path: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(shards.folder)], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None and worker.stdout.readline() == "halfway\n"
    worker.kill()
    worker.wait()
    assert shards.unfinished() == [0, 1, 2, 3, 4]
    for number in shards.unfinished():
        shards.answer(number, answer)
    shards.join(tmp_path / "out")
    assert (tmp_path / "out").read_text() == WHOLE
