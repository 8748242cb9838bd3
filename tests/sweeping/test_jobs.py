"""The jobs of a sweep: side by side, ended with it, and what is told of one that failed."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import sys
import threading
import time

import pytest

from ut_tf.errors import UserError
from ut_tf.storage.locks import held_alone
from ut_tf.sweeping import sweep as library
from ut_tf.sweeping.jobs import Command, Job, Jobs


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


def test_a_log_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "a").write_text("a file where the run's folder would be")
    with (
        pytest.raises(UserError, match="of a cannot begin"),
        Jobs(1, [{}], lambda _: None) as running,
    ):
        list(running.run([_job(tmp_path, "a", "pass")]))


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
