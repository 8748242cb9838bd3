"""The jobs of a sweep: side by side, ended with it, and what is told of one that failed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.storage.locks import held_alone
from ut_tf.sweeping import sweep as library
from ut_tf.sweeping.grid import (
    Cell,
    Progress,
    expand_names,
    expand_points,
    make_cells,
)
from ut_tf.sweeping.jobs import Command, Job, Jobs
from ut_tf.sweeping.search import Choice, Range, Search, Settings, bounds_of, parse_space
from ut_tf.sweeping.sweep import Sweep, run_sweep
from ut_tf.tables.finished import check_finished


def _job(tmp_path, name, *codes):
    commands = tuple(
        Command(f"step{number}", (sys.executable, "-c", code)) for number, code in enumerate(codes)
    )
    return Job(name, commands, tmp_path / name / "log")


def test_jobs_run_side_by_side_and_a_failure_ends_its_own_job_alone(tmp_path):
    meet = (
        "import pathlib, sys, time\n"
        "mine, other = (pathlib.Path(p) for p in {paths!r})\n"
        "mine.touch()\n"
        "while not other.exists(): time.sleep(0.01)"
    )
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    jobs = [
        _job(tmp_path, "a", meet.format(paths=paths), "print('evaluated')"),
        _job(
            tmp_path,
            "b",
            meet.format(paths=paths[::-1]),
            "import sys; sys.exit('b: error: no data')",
            "print('never')",
        ),
        _job(tmp_path, "c", "import os; print(os.environ['SHARE'])"),
    ]
    begun = []
    with Jobs(2, [{"SHARE": "0"}, {"SHARE": "1"}], lambda job: begun.append(job.name)) as running:
        outcomes = {one.job.name: one for one in running.run(jobs)}
    assert begun == ["a", "b", "c"]
    assert {name: (one.status, one.done) for name, one in outcomes.items()} == {
        "a": (0, ("step0", "step1")),
        "b": (1, ("step0",)),
        "c": (0, ("step0",)),
    }
    assert (tmp_path / "a" / "log").read_text() == "$ step0\n$ step1\nevaluated\n"
    assert "never" not in (tmp_path / "b" / "log").read_text()
    assert (tmp_path / "c" / "log").read_text().splitlines()[1] in ("0", "1")


def test_ctrl_c_lets_the_children_end_by_themselves_and_begins_no_more(tmp_path):
    gentle = (
        "import pathlib, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_:"
        f" (pathlib.Path({str(tmp_path / 'saved')!r}).touch(),"
        f" sys.exit(130)))\npathlib.Path({str(tmp_path / 'ready')!r}).touch()\ntime.sleep(60)"
    )

    def interrupt():
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    jobs = [
        _job(tmp_path, "a", gentle, "print('evaluated')"),
        _job(tmp_path, "b", "print('never')"),
    ]
    handler = signal.getsignal(signal.SIGINT)
    with Jobs(1, [{}], lambda _: None) as running:
        outcomes = list(running.run(jobs))
    assert (tmp_path / "saved").exists()
    assert [(one.job.name, one.status, one.done, one.stopped) for one in outcomes] == [
        ("a", 130, (), True)
    ]
    assert running.stopping
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_signal_stops_the_children_s_children_too(tmp_path):
    # As a training does that prepares its data in several processes; the first signal only makes it
    # tell.
    stubborn = (
        "import pathlib, signal, subprocess, sys\n"
        "def noted(*_):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        f"    pathlib.Path({str(tmp_path / 'told')!r}).touch()\n"
        "signal.signal(signal.SIGTERM, noted)\n"
        "worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(tmp_path / 'worker')!r}).write_text(str(worker.pid))\n"
        "while True: worker.wait()"
    )

    def interrupt_twice():
        for sign in ("worker", "told"):
            while not (tmp_path / sign).exists():
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_twice, daemon=True).start()
    with Jobs(1, [{}], lambda _: None) as running:
        outcomes = list(running.run([_job(tmp_path, "a", stubborn)]))
    assert [(one.status, one.stopped) for one in outcomes] == [(-signal.SIGTERM, True)]
    worker = int((tmp_path / "worker").read_text())
    deadline = time.monotonic() + 10
    while _is_alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(worker)


def _is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = pathlib.Path(f"/proc/{process}/stat")
    # What nobody has waited for yet is dead all the same.
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_an_error_in_the_loop_leaves_no_child_behind(tmp_path):
    with pytest.raises(RuntimeError), Jobs(2, [{}, {}], lambda _: None) as running:
        for _ in running.run(
            [_job(tmp_path, "a", "import time; time.sleep(60)"), _job(tmp_path, "b", "pass")]
        ):
            child = running._running[0].process
            raise RuntimeError
    assert child.returncode == -signal.SIGTERM


def test_the_reason_of_a_failure_is_the_last_command_s_own(tmp_path):
    job = _job(tmp_path, "a", "pass", "raise ValueError('no such length')")
    job.log.parent.mkdir()
    job.log.write_text("$ step0\nstep0: error: of yesterday\n")
    with Jobs(1, [{}], lambda _: None) as running:
        (outcome,) = running.run([job])
    assert library._reason(outcome) == "ValueError: no such length"
    with Jobs(1, [{}], lambda _: None) as running:
        (outcome,) = running.run([_job(tmp_path, "a", "raise SystemExit(3)")])
    assert library._reason(outcome) == "exit status 3"


def test_what_a_killed_sweep_has_left_is_waited_for(tmp_path, capsys):
    """Its training has a session of its own and goes on."""
    held = tmp_path / "held"
    told = f"import pathlib; print(pathlib.Path({str(held)!r}).exists())"
    job = dataclasses.replace(_job(tmp_path, "a", told), run_dir=tmp_path)
    begun = threading.Event()

    def orphan():
        with held_alone(tmp_path):
            held.touch()
            begun.set()
            time.sleep(0.4)
            held.unlink()

    thread = threading.Thread(target=orphan)
    thread.start()
    assert begun.wait(10)
    with Jobs(1, [{}], lambda _: None) as running:
        (outcome,) = running.run([job])
    thread.join()
    assert (outcome.status, outcome.done) == (0, ("step0",))
    assert (tmp_path / "a" / "log").read_text() == "$ step0\nFalse\n"
    assert f"a waits for the process that trains in {tmp_path}" in capsys.readouterr().err


def test_a_sweep_that_waits_can_be_stopped(tmp_path):
    job = dataclasses.replace(_job(tmp_path, "a", "print('never')"), run_dir=tmp_path)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with held_alone(tmp_path), Jobs(1, [{}], lambda _: None) as running:
        (outcome,) = running.run([job])
    assert outcome.stopped and not outcome.done
    assert not (tmp_path / "a" / "log").exists()


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
        *("dropout=0.1,num_steps=4", "dropout=0.1,num_steps=8", "dropout=1e-1,num_steps=4"),
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
        *('{"cells": {}}', '{"format_version": 2, "cells": {}}', "[]"),
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
