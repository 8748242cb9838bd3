"""The grid of a sweep, and the file of its progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.sweeping.grid import (
    Cell,
    Progress,
    expand_names,
    expand_numbers,
    expand_points,
    make_cells,
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a,b", "c"], ["a", "b", "c"]),
        (["task{1..3}_10k"], ["task1_10k", "task2_10k", "task3_10k"]),
        (["{a,b}_{2..1}", "c"], ["a_2", "a_1", "b_2", "b_1", "c"]),
        (["a,a", "{a}"], ["a"]),
        ([" a , b,"], ["a", "b"]),
    ],
)
def test_names_are_expanded(words, expected):
    assert expand_names(words) == expected


def test_numbers_are_expanded():
    assert expand_numbers(["1..3,7", "{9..10}", "2"]) == [1, 2, 3, 7, 9, 10]


@pytest.mark.parametrize("word", ["a{b", "a}b", "a{b{c}}", "{a,}", "{1..999999}"])
def test_braces_that_mean_nothing_are_refused(word):
    with pytest.raises(ValueError, match=r"brace|numbers"):
        expand_names([word])


def test_every_combination_is_made_once_and_the_first_seed_comes_first():
    cells = make_cells(["a", "b"], ["x"], [1, 2, 1])
    assert [cell.name for cell in cells] == ["a-x-seed1", "b-x-seed1", "a-x-seed2", "b-x-seed2"]


def test_every_combination_of_values_is_a_point_and_names_a_run():
    points = expand_points("dropout=0.1+1e-1,num_steps=4+8")
    assert points == [
        "dropout=0.1,num_steps=4",
        "dropout=0.1,num_steps=8",
        "dropout=1e-1,num_steps=4",
        "dropout=1e-1,num_steps=8",
    ]
    assert expand_points("learning_rate=1e+2+3") == ["learning_rate=1e+2", "learning_rate=3"]
    assert expand_points("") == [""]
    assert expand_points("/a=1,b=2+3/a=1,b=3") == ["", "a=1,b=2", "a=1,b=3"]
    cells = make_cells(["a"], ["x"], [1, 2], points[:1])
    assert [cell.name for cell in cells] == [
        "a-x-dropout=0.1-num_steps=4-seed1",
        "a-x-dropout=0.1-num_steps=4-seed2",
    ]


@pytest.mark.parametrize("text", ["dropout", "dropout=", "dropout=1+", "a=1,a=2", "a=../b"])
def test_points_that_mean_nothing_are_refused(text):
    with pytest.raises(ValueError, match=r"a"):
        expand_points(text)


def test_a_cell_is_finished_only_with_the_flags_it_was_finished_with(tmp_path):
    cell = Cell("a", "x", 1)
    Progress(tmp_path).note(cell, "finished", ["--train_steps=5"], [], minutes=1.0)
    progress = Progress(tmp_path)
    assert progress.reached(cell, ["--train_steps=5"], []) == "finished"
    assert progress.reached(cell, ["--train_steps=5"], ["--lengths=40"]) == "trained"
    assert progress.reached(cell, ["--train_steps=9"], []) is None
    progress.note(cell, "stopped", ["--train_steps=9"], [], minutes=0.5)
    assert progress.reached(cell, ["--train_steps=9"], []) is None
    assert json.loads((tmp_path / "sweep.json").read_text())["cells"]["a-x-seed1"]["minutes"] == 1.5


@pytest.mark.parametrize(
    "text",
    [
        '{"cells": {}}',
        '{"format_version": 2, "cells": {}}',
        "[]",
        '{"format_version": 1, "cells": {"a": {}}}',
    ],
)
def test_a_sweep_json_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(UserError, match=r"sweep.json is no file of this ut-sweep"):
        Progress(tmp_path)


def test_processes_write_their_progress_beside_each_other(tmp_path: Path) -> None:
    first, second = Progress(tmp_path), Progress(tmp_path)
    first.note(Cell("a", "x", 1), "finished", [], [], 1.0)
    second.note(Cell("b", "x", 1), "trained", [], [], 1.0)
    read = Progress(tmp_path)
    assert read.reached(Cell("a", "x", 1), [], []) == "finished"
    assert read.reached(Cell("b", "x", 1), [], []) == "trained"


def test_what_halving_and_claims_have_written_is_read(tmp_path: Path) -> None:
    """A run that halving stopped is trained on."""
    entry = {"problem": "a", "hparams_set": "x", "trainer_flags": [], "eval_flags": []}
    cells = {
        f"a-x-seed{seed}": {**entry, "seed": seed, "state": state, "failed_at": 0.0}
        for seed, state in enumerate(("finished", "hopeless"))
    }
    (tmp_path / "sweep.json").write_text(json.dumps({"format_version": 1, "cells": cells}))
    read = Progress(tmp_path)
    assert read.reached(Cell("a", "x", 0), [], []) == "finished"
    assert read.reached(Cell("a", "x", 1), [], []) is None
