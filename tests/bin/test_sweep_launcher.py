"""Sweeps by job arrays: what is queued, and tasks that share the cells of a grid."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from ut_tf.bin import sweep as command
from ut_tf.bin.sweep_launcher import check_unshared, share
from ut_tf.errors import UserError
from ut_tf.storage.layout import CONFIG_FILE, RECORDS_FILE
from ut_tf.storage.locks import held_alone
from ut_tf.sweeping.claims import Claims
from ut_tf.sweeping.grid import Cell, make_cells
from ut_tf.sweeping.jobs import Command, interrupted_by_signals
from ut_tf.sweeping.shared import run_shared
from ut_tf.sweeping.sweep import Sweep

ROOT = Path(__file__).parents[2]
CELLS = make_cells(["p"], ["s"], range(6))
PODS = ["--launcher=kubernetes"]
GRID = ["--problems=babi_sim_task{1,2}", "--hparams_sets=ut_babi", "--seeds=1..3"]
# Trains like ut-trainer, as far as a sweep looks: writes the run's files and who it was.
TRAIN = f"""
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
place.mkdir(parents=True, exist_ok=True)
with open(place / "trained", "a") as log:
    log.write(sys.argv[2] + "\\n")
time.sleep(0.05)
(place / {CONFIG_FILE!r}).write_text("{{}}")
(place / {RECORDS_FILE!r}).write_text("")
"""


class StubCommands:
    """``Commands`` whose trainings take a moment."""

    training_options: Sequence[str] = ()
    evaluation_options: Sequence[str] = ()

    def __init__(self, who: str) -> None:
        self._who = who

    def training(self, cell: Cell, place: Path, *options: object) -> Command:
        del cell, options
        program = (sys.executable, "-c", TRAIN, str(place), self._who)
        return Command("ut-trainer", program)

    def evaluation(self, place: Path) -> Command:
        del place
        return Command("ut-eval", (sys.executable, "-c", ""))


def silent(text: str) -> None:
    del text


def test_a_claim_belongs_to_one_of_many(tmp_path: Path) -> None:
    won: list[int] = []
    ready = threading.Barrier(16)

    def try_to_take(number: int) -> None:
        claims = Claims(tmp_path)
        ready.wait()
        with claims.take("cell") as claim:
            if claim is not None:
                won.append(number)
                time.sleep(0.2)

    threads = [threading.Thread(target=try_to_take, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    with Claims(tmp_path).take("cell") as claim:
        assert claim is not None
        assert str(os.getpid()) in Claims(tmp_path).owner("cell")


def test_one_of_many_takes_over_the_claim_of_a_process_that_is_gone(tmp_path: Path) -> None:
    left = "import os, sys; from ut_tf.sweeping.claims import Claims; from pathlib import Path\n"
    left += "with Claims(Path(sys.argv[1])).take('cell'): os._exit(9)"
    subprocess.run([sys.executable, "-c", left, str(tmp_path)], check=False)
    with Claims(tmp_path).take("cell") as claim:
        assert claim is None
    old = time.time() - 1000
    os.utime(tmp_path / "cell.json", (old, old))
    won, ready = [], threading.Barrier(8)

    def take_over() -> None:
        ready.wait()
        with Claims(tmp_path).take("cell") as claim:
            won.append(claim is not None)
            time.sleep(0.2)

    threads = [threading.Thread(target=take_over) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won.count(True) == 1


def test_a_living_owner_keeps_its_claim(tmp_path: Path) -> None:
    with Claims(tmp_path, patience=0.5, beat=0.05).take("cell") as claim:
        assert claim is not None
        time.sleep(0.8)
        with Claims(tmp_path, patience=0.5).take("cell") as other:
            assert other is None


def test_a_successor_that_is_gone_has_a_successor(tmp_path: Path) -> None:
    """Twice a process ends between the right to replace a claim and its replacement."""
    for name, token in (("cell.json", "a"), (".cell.after-a", "b"), (".cell.after-b", "")):
        (tmp_path / name).write_text(json.dumps({"token": token}) if token else "")
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".cell.after-b").touch()
    with Claims(tmp_path).take("cell") as claim:
        assert claim is None
    os.utime(tmp_path / ".cell.after-b", (0, 0))
    with Claims(tmp_path).take("cell") as claim:
        assert claim is not None


def test_a_damaged_claim_is_taken_over_as_often_as_it_is_damaged(tmp_path: Path) -> None:
    for _ in range(3):
        (tmp_path / "cell.json").write_text("")
        for path in tmp_path.iterdir():
            os.utime(path, (0, 0))
        with Claims(tmp_path).take("cell") as claim:
            assert claim is not None


def test_tasks_that_start_at_once_wait_for_each_other(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, [], StubCommands("x"), 1)
    with ThreadPoolExecutor(8) as threads:
        with held_alone(tmp_path):
            tasks = [threads.submit(share, sweep, silent) for _ in range(8)]
            time.sleep(0.1)
            assert not any(task.done() for task in tasks)
        assert all(task.result(20).failed == [] for task in tasks)
    assert Claims(tmp_path / "claims").fresh() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_task_that_is_told_to_end_while_it_waits_gives_back_its_claims(
    number: signal.Signals, tmp_path: Path
) -> None:
    sweep = Sweep(tmp_path, CELLS[:1], StubCommands("x"), 1)
    claims = Claims(tmp_path / "claims")

    def end_it_once_it_waits() -> None:
        deadline = time.monotonic() + 20
        while len(claims.fresh()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        os.kill(os.getpid(), number)

    # Under nohup a hangup is ignored.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with claims.take(CELLS[0].name):
            killer = threading.Thread(target=end_it_once_it_waits)
            with pytest.raises(KeyboardInterrupt), interrupted_by_signals():
                killer.start()
                share(sweep, silent)
            killer.join()
            assert claims.fresh() == [CELLS[0].name]
    finally:
        signal.signal(number, before)


def test_a_local_sweep_does_not_begin_beside_tasks(tmp_path: Path) -> None:
    check_unshared(tmp_path)
    with Claims(tmp_path / "claims").take("task-1"):
        with pytest.raises(UserError, match=rf"process {os.getpid()} works on .* wait until"):
            check_unshared(tmp_path)
        os.utime(tmp_path / "claims" / "task-1.json", (0, 0))
        check_unshared(tmp_path)


def work_through(folder: str, who: str) -> int:
    """Called by the processes of the test below."""
    sweep = Sweep(Path(folder), CELLS, StubCommands(who), 1)
    result = run_shared(sweep, Claims(sweep.folder / "claims", patience=1.0, beat=0.2), silent)
    return int(bool(result.failed or result.stopped))


def test_processes_share_the_cells(tmp_path: Path) -> None:
    script = (
        "import sys; from tests.bin.test_sweep_launcher import work_through;"
        " sys.exit(work_through(*sys.argv[1:]))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(number)], cwd=ROOT)
        for number in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    who = [(tmp_path / cell.name / "trained").read_text().split() for cell in CELLS]
    assert all(len(names) == 1 for names in who)
    progress = json.loads((tmp_path / "sweep.json").read_text())["cells"]
    assert {entry["state"] for entry in progress.values()} == {"finished"}
    assert len(progress) == len(CELLS)


def test_who_writes_the_progress_is_waited_for_as_long_as_a_claim_lasts(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, CELLS[:1], StubCommands("x"), 1)
    claims = Claims(tmp_path / "claims", patience=0.3, beat=0.1)
    with (
        claims.take("sweep"),
        pytest.raises(UserError, match=rf"process {os.getpid()} has been writing .* 0 seconds"),
    ):
        run_shared(sweep, claims, silent)


class FailingCommands(StubCommands):
    """``Commands`` that train, and fail to evaluate."""

    def evaluation(self, place: Path) -> Command:
        del place
        return Command("ut-eval", (sys.executable, "-c", "raise SystemExit(3)"))


def test_a_run_that_failed_elsewhere_is_passed_over(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, CELLS[:1], FailingCommands("x"), 1)
    claims, said = Claims(tmp_path / "claims"), list[str]()
    begun = time.time()
    assert run_shared(sweep, claims, silent, begun).failed == [CELLS[0].name]
    assert run_shared(sweep, claims, said.append, begun).failed == []
    assert said == [f"{CELLS[0].name}: passed over, it failed elsewhere; its log tells why"]
    # A command that is started later tries again.
    assert run_shared(sweep, claims, silent).failed == [CELLS[0].name]


def test_what_is_queued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = [*GRID, f"--output_dir={tmp_path}", "--parallel=4", "--dry_run"]
    trainer = ["--", "--train_steps=20"]
    slurm = ["--launcher=slurm", "--launcher_args=--gpus=1 --time=2:00:00"]
    assert command.main([*own, *slurm, *trainer]) == 0
    queued = capsys.readouterr().out
    assert queued.startswith("sbatch --job-name=ut-sweep --array=0-3 --requeue")
    assert "--gpus=1 --time=2:00:00" in queued
    assert re.search(r"exec env UT_TF_SWEEP_BEGUN=\d{10} ut-sweep", queued)
    kubernetes = [
        "--launcher=kubernetes",
        f"--launcher_args=image=i,claim=c,gpus=2,mount={tmp_path}",
    ]
    assert command.main([*own, *kubernetes, *trainer]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    pod = job["spec"]["template"]["spec"]
    words = pod["containers"][0]["command"]
    assert words == [
        "ut-sweep",
        *GRID,
        f"--output_dir={tmp_path}",
        "--launcher=shared",
        *trainer,
    ]
    assert job["spec"]["completions"] == 4
    assert pod["containers"][0]["env"][0]["name"] == "UT_TF_SWEEP_BEGUN"
    assert pod["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 2}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--launcher=pbs"], "expected one of local, slurm, kubernetes, shared"),
        (["--launcher=shared", "--parallel=2"], "start as many tasks"),
        (["--launcher_args=x=1"], "--launcher_args is for"),
        ([*PODS, "--launcher_args=mount=/"], "image is missing"),
        ([*PODS, "--launcher_args=image=i,claim=c,mount=/,gpus=x"], "gpus=x: expected a whole"),
        ([*PODS, "--launcher_args=image=i,claim=c,mount=/,gpus=-3"], "gpus=-3: expected a whole"),
        ([*PODS, "--launcher_args=image=i,claim=c"], "the pods see /shared alone: name a folder"),
        (["--launcher=slurm", "--launcher_args=--comment='x"], "a quote has no other half"),
    ],
)
def test_what_does_not_go_together(
    given: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([*GRID, f"--output_dir={tmp_path / 'sweep'}", *given]) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


def test_the_folder_of_pods_is_not_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the volume, which this machine may not have."""
    (tmp_path / "kubectl").write_text("#!/bin/sh\ncat > /dev/null\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    folder = f"{tmp_path}/volume/sweep"
    arguments = f"--launcher_args=image=i,claim=c,mount={tmp_path}/volume"
    assert command.main([*GRID, f"--output_dir={folder}", *PODS, arguments]) == 0
    assert not (tmp_path / "volume").exists()
