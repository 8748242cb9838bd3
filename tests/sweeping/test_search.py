"""A search: its space, its trials by several processes, and what is stopped as behind others."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.sweeping.grid import Cell
from ut_tf.sweeping.jobs import Command
from ut_tf.sweeping.search import Choice, Range, Search, Settings, bounds_of, parse_space
from ut_tf.sweeping.sweep import Sweep, run_sweep
from ut_tf.tables.finished import check_finished

# Trains without TensorFlow: its error is the value of x. The later runs begin, the slower they are.
TRAIN = """
import json, pathlib, sys, time
from ut_tf.storage.processes import TrainingProcess, write_processes
place, x = pathlib.Path(sys.argv[1]), float(sys.argv[2])
place.mkdir(exist_ok=True)
with (place.parent / "calls").open("a") as calls:
    calls.write(f"{place.name}\\n")
(place / "config.json").write_text("{}")
(place / "checkpoints" / "step-00000004").mkdir(parents=True, exist_ok=True)
chosen_by = {"metric": "error", "direction": "min"}
process = TrainingProcess("", 0, 4, "train_steps", selection=chosen_by)
write_processes(place, [process])
with (place / "metrics.jsonl").open("a") as log:
    log.write(json.dumps({"kind": "eval", "step": 2, "error": x}) + "\\n")
if len((place.parent / "calls").read_text().splitlines()) > 6 and x > 0.5:
    time.sleep(60)
"""
EVALUATE = "import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'evaluations.jsonl').touch()"


class QuickCommands:
    training_options: tuple[str, ...] = ()
    evaluation_options: tuple[str, ...] = ()

    def training(self, cell: Cell, place: Path, threads: int | None) -> Command:
        del threads
        x = cell.point.partition("=")[2]
        return Command("ut-trainer", (sys.executable, "-c", TRAIN), (str(place), x))

    def evaluation(self, place: Path) -> Command:
        return Command("ut-eval", (sys.executable, "-c", EVALUATE), (str(place),))


def cell_of(point: str) -> Cell:
    return Cell("task", "set", 1, point)


def make_search(
    folder: Path, text: str = "x=0..1", trials: int = 12, task: int = 0, tasks: int = 1
) -> Search:
    settings = Settings(trials, 3, "median", task, tasks, {"search": text})
    return Search(folder, parse_space(text), frozenset("x"), cell_of, settings)


def test_a_space_has_ranges_and_choices() -> None:
    space = parse_space("learning_rate=1e-4..1e-2:log,num_steps=-2..8,optimizer=adam+muon+sgd")
    assert space == {
        "learning_rate": Range("1e-4", "1e-2", True),
        "num_steps": Range("-2", "8", False),
        "optimizer": Choice(("adam", "muon", "sgd")),
    }
    assert bounds_of(space) == [
        "learning_rate=1e-4,num_steps=-2,optimizer=adam",
        "learning_rate=1e-2,num_steps=8,optimizer=muon",
        "learning_rate=1e-2,num_steps=8,optimizer=sgd",
    ]


@pytest.mark.parametrize("text", ["x", "x=2..1", "x=0..1:log", "x=1..1", "x=a..b/", "x=1..2,x=3"])
def test_a_space_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="x"):
        parse_space(text)


def test_what_is_behind_is_stopped_and_never_becomes_a_result(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    sweep, said = Sweep(tmp_path, [], QuickCommands(), 1), list[str]()
    search = make_search(tmp_path)
    assert run_sweep(sweep, said.append, search).failed == []
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(set(calls)) == 12
    states = json.loads((tmp_path / "sweep.json").read_text())["cells"]
    behind = [name for name, entry in states.items() if entry["state"] == "pruned"]
    assert behind
    assert all(float(name.split("=")[1].split("-")[0]) > 0.5 for name in behind)
    with pytest.raises(UserError, match="was stopped by ut-sweep as hopeless"):
        check_finished(tmp_path / behind[0])
    least = min(float(name.split("=")[1].removesuffix("-seed1")) for name in calls)
    assert f"best of 12 trials by validation: x={least:g} with error {least:g}" in search.best()
    # The same command finds nothing to do, one with more trials goes on.
    run_sweep(sweep, said.append, make_search(tmp_path))
    assert len((tmp_path / "calls").read_text().splitlines()) == 12
    run_sweep(sweep, said.append, make_search(tmp_path, trials=13))
    assert len((tmp_path / "calls").read_text().splitlines()) == 13


def test_a_trial_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    ((_, cell),) = itertools.islice(make_search(tmp_path, trials=2).cells(), 1)
    found = list(make_search(tmp_path, trials=2).cells())
    assert found[0] == (1, cell)
    assert found[1][0] == 2 and found[1][1] != cell


def test_tasks_share_the_trials_and_each_takes_up_its_own(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    searches = [make_search(tmp_path, trials=4, task=task, tasks=2) for task in range(2)]
    first, second = (search.cells() for search in searches)
    taken = [next(first), next(second), next(first)]
    again = make_search(tmp_path, trials=4, task=1, tasks=2).cells()
    assert next(again)[1] == taken[1][1]
    taken.append(next(again))
    assert len({cell.name for _, cell in taken}) == 4
    assert list(first) == list(again) == []


def test_equal_values_are_trained_once(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    cells = [cell.name for _, cell in make_search(tmp_path, "x=0.1+0.2", trials=9).cells()]
    assert sorted(cells) == ["task-set-x=0.1-seed1", "task-set-x=0.2-seed1"]


def test_the_seed_decides_the_values(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    both = []
    for name in "ab":
        (tmp_path / name).mkdir()
        both.append(list(make_search(tmp_path / name, trials=3).cells()))
    assert both[0] == both[1]


def test_a_folder_with_another_search_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    make_search(tmp_path)
    with pytest.raises(UserError, match=r"`search`=x=0\.\.2: .* is a search with x=0\.\.1"):
        make_search(tmp_path, "x=0..2")


@pytest.mark.parametrize("content", [b"{", b"[]\n", b"\xff\xfe\n", b'{"op_code": 99}\n'])
def test_a_damaged_study_is_told(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "optuna.journal").write_bytes(content + b"\n")
    with pytest.raises(UserError, match="is no study of this sweep"):
        make_search(tmp_path)


def test_without_optuna_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match="pip install optuna"):
        make_search(tmp_path)
