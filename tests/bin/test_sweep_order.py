"""ut-sweep: which runs begin first, how long is left, and seeds that are stopped as hopeless."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ut_tf.bin import sweep as command
from ut_tf.errors import UserError
from ut_tf.results.finished import check_finished
from ut_tf.sweeping.expected import ExpectedMinutes, parse_minutes
from ut_tf.sweeping.grid import Cell, Progress, make_cells
from ut_tf.sweeping.halving import hopeless, kept_of, rung_step
from ut_tf.sweeping.jobs import Command
from ut_tf.sweeping.sweep import Sweep, run_sweep

# Trains without TensorFlow: validates every second update, the higher the seed the better.
TRAIN = """
import json, pathlib, sys
from ut_tf.storage.processes import TrainingProcess, read_processes, write_processes
place, end, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
place.mkdir(exist_ok=True)
with (place.parent / "calls").open("a") as calls:
    calls.write(f"{place.name} {end}\\n")
if not (place / "config.json").exists():
    (place / "config.json").write_text("{}")
if end == 8 and (place / "fails").exists():
    sys.exit(1)
before = read_processes(place)
begin = int((place / "step").read_text()) if (place / "step").exists() else 0
with (place / "metrics.jsonl").open("a") as log:
    for step in range(begin + 2, end + 1, 2):
        point = {"kind": "eval", "step": step, "error": 10 - seed - step / 100}
        log.write(json.dumps(point) + "\\n")
(place / "step").write_text(str(end))
(place / "checkpoints" / f"step-{end:08d}").mkdir(parents=True, exist_ok=True)
chosen_by = {"metric": "error", "direction": "min"}
process = TrainingProcess("", begin, end, "train_steps", selection=chosen_by)
write_processes(place, [*before, process])
"""
EVALUATE = "import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'evaluations.jsonl').touch()"


class QuickCommands:
    training_options: tuple[str, ...] = ()
    evaluation_options: tuple[str, ...] = ()

    def training(
        self, cell: Cell, place: Path, threads: int | None, train_steps: int | None = None
    ) -> Command:
        del threads
        arguments = (str(place), str(train_steps or 8), str(cell.seed))
        return Command("ut-trainer", (sys.executable, "-c", TRAIN), arguments)

    def evaluation(self, place: Path) -> Command:
        return Command("ut-eval", (sys.executable, "-c", EVALUATE), (str(place),))


def calls(folder: Path) -> list[str]:
    lines = (folder / "calls").read_text().splitlines()
    return [line.replace("task-set-seed", "") for line in lines]


def test_hopeless_seeds_are_stopped_and_never_become_results(tmp_path: Path) -> None:
    cells = make_cells(["task"], ["set"], [1, 2, 3, 4])
    rungs = [dict.fromkeys(cells, 2), dict.fromkeys(cells, 4)]

    def quick(rungs: Any) -> Sweep:
        return Sweep(tmp_path, list(cells), QuickCommands(), 1, {"task": 2.0}, rungs)

    said: list[str] = []
    assert run_sweep(quick(rungs), said.append).failed == []
    assert calls(tmp_path) == ["1 2", "2 2", "3 2", "4 2", "3 4", "4 4", "4 8"]
    assert "[1/4] task-set-seed1: begun, about 8 min left for all" in said
    states = json.loads((tmp_path / "sweep.json").read_text())["cells"]
    assert [states[cell.name]["state"] for cell in cells] == [*["hopeless"] * 3, "finished"]
    with pytest.raises(UserError, match="was stopped by ut-sweep as hopeless at step 4 of 4"):
        check_finished(tmp_path / "task-set-seed3")
    # The same command finds nothing to do; without halving the others are trained to the end.
    run_sweep(quick(rungs), said.append)
    assert len(calls(tmp_path)) == 7
    run_sweep(quick([]), said.append)
    assert calls(tmp_path)[7:] == ["1 8", "2 8", "3 8"]
    check_finished(tmp_path / "task-set-seed3")


def test_a_run_at_a_rung_never_becomes_a_result(tmp_path: Path) -> None:
    """The second command of the sweep fails, and leaves the seeds at their rung."""
    (cell,) = make_cells(["task"], ["set"], [1])
    place = tmp_path / cell.name
    quick = Sweep(tmp_path, [cell], QuickCommands(), 1, rungs=[{cell: 4}])
    place.mkdir()
    (place / "fails").touch()
    assert run_sweep(quick, lambda _: None).failed == [cell.name]
    with pytest.raises(UserError, match="was trained by ut-sweep to a rung of halving, at step 4"):
        check_finished(place)
    (place / "fails").unlink()
    run_sweep(quick, lambda _: None)
    check_finished(place)


def test_a_machine_that_went_down_between_rungs_costs_nothing(tmp_path: Path) -> None:
    cells = make_cells(["task"], ["set"], [1, 2])
    rungs = [dict.fromkeys(cells, 4)]
    run_sweep(Sweep(tmp_path, cells[:1], QuickCommands(), 1), lambda _: None)
    # Of the second seed there is a checkpoint behind the rung, but sweep.json does not know it.
    quick = Sweep(tmp_path, list(cells), QuickCommands(), 1, rungs=rungs)
    place = tmp_path / cells[1].name
    subprocess.run([sys.executable, "-c", TRAIN, str(place), "6", "2"], check=True)
    run_sweep(quick, lambda _: None)
    assert calls(tmp_path) == ["1 8", "2 6", "2 8"]


def test_the_longest_begin_first_where_several_run_at_a_time(tmp_path: Path) -> None:
    names = ["short", "long", "unknown"]
    cells = make_cells(names, ["set"], [1, 2])
    done = cells[0]
    Progress(tmp_path).note(done, "finished", [], [], 1.0)
    quick = Sweep(tmp_path, list(cells), QuickCommands(), 2, {"long": 9.0})
    (tmp_path / done.name).mkdir()
    for file in ("config.json", "evaluations.jsonl"):
        (tmp_path / done.name / file).write_text("{}")
    begun: list[str] = []
    run_sweep(quick, lambda line: begun.append(line) if ": begun" in line else None)
    order = [line.split("] ")[1].split("-")[0] for line in begun]
    # What is unknown is expected to take the mean of the same set, which the quick ones lower.
    assert order == ["long", "long", "short", "unknown", "unknown"]


def test_expected_minutes_are_the_most_particular() -> None:
    measured = {Cell("a", "x", 1): 4.0, Cell("a", "x", 2): 6.0, Cell("a", "y", 1): 20.0}
    expected = ExpectedMinutes(parse_minutes("b=30, b-y=7"), measured)
    assert expected.of(Cell("a", "x", 3)) == 5.0
    assert expected.of(Cell("a", "z", 1)) == 10.0
    assert expected.of(Cell("c", "y", 1)) == 20.0
    assert expected.of(Cell("b", "y", 1)) == 7.0
    assert expected.of(Cell("b", "x", 1)) == 30.0
    assert expected.of(Cell("c", "z", 1)) is None


def test_rungs_are_validated_updates_and_half_of_the_seeds_go_on() -> None:
    assert [rung_step(share, 2000, 300) for share in (0.25, 0.5)] == [600, 1200]
    assert [kept_of(8, rung) for rung in range(4)] == [4, 2, 1, 1]
    assert [kept_of(3, rung) for rung in range(2)] == [2, 1]
    scores = {Cell("a", "x", seed): score for seed, score in ((1, -2.0), (2, -1.0), (3, -1.0))}
    assert [cell.seed for cell in hopeless(scores, 1)] == [3, 1]


@pytest.mark.parametrize(
    ("flag", "status", "expected"),
    [
        ("--minutes=ut_babi:3", 2, "'ut_babi:3' is no name with a number; expected a list like"),
        ("--minutes=ut_babi=-3", 2, "is no name with a number of minutes"),
        ("--halving=0.5,0.25", 2, "expected rising numbers between 0 and 1"),
        ("--halving=half", 2, "expected rising numbers between 0 and 1"),
        ("--halving=0.99", 1, "updates, too seldom to stop a seed early"),
    ],
)
def test_mistakes_are_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str, status: int, expected: str
) -> None:
    grid = ["--problems=babi_sim_task1", "--hparams_sets=ut_babi", "--seeds=1..3"]
    assert command.main([*grid, f"--output_dir={tmp_path}/sweep", flag]) == status
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()
