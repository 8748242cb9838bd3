"""Files are complete or absent; a lock is held by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
import tensorflow as tf

from tests.bin.tiny_runs import translation_run
from tests.training.toy import toy_run
from ut_tf.bin import avg_checkpoints
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
from ut_tf.figures import style
from ut_tf.storage import json_lines, locks
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.files import (
    open_regular,
    open_to_append,
    read_bounded,
    remove_leftovers,
    sha256_of,
    write_text,
)
from ut_tf.storage.folders import check_writable
from ut_tf.storage.json_lines import lines, objects, read_object, sealed
from ut_tf.storage.layout import LOCK_FILE
from ut_tf.storage.leftovers import filled_beside, locked_at_once
from ut_tf.storage.locks import exclusive, held_alone, while_starting
from ut_tf.storage.typed_lines import plain, read_typed, typed
from ut_tf.training.trainer import train

ROOT = Path(__file__).parents[2]


def test_writing_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_text(path, "first")
    write_text(path, "secönd")
    assert path.read_text(encoding="utf-8") == "secönd"
    assert [item.name for item in path.parent.iterdir()] == ["file.txt"]


def test_another_process_waits_for_the_lock(tmp_path: Path) -> None:
    lock, told = tmp_path / "lock", tmp_path / "told"
    code = f"""
from pathlib import Path
from ut_tf.storage.locks import exclusive
Path({str(told)!r} + ".started").touch()
with exclusive(Path({str(lock)!r})):
    Path({str(told)!r}).touch()
"""
    with exclusive(lock):
        other = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
        deadline = time.monotonic() + 20
        while not Path(f"{told}.started").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert not told.exists()
    assert other.wait(timeout=20) == 0
    assert told.exists()


@pytest.mark.parametrize("parts", [("a" * 300,), ("new", "a" * 300), ("ä" * 200, "new")])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, parts: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match=r"`figures`=.*name too long"):
        check_writable(tmp_path.joinpath(*parts), "figures")
    check_writable(tmp_path / "new" / ("a" * 200), "figures")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_filled_beside_and_what_was_left_of_it_goes(tmp_path: Path) -> None:
    others = [".tmp-mean-best-1", ".tmp-other-1"]
    for name in (".tmp-mean-1", ".tmp-mean-2", *others):
        write_text(tmp_path / name / "half", "half")
    with (
        locked_at_once(tmp_path / ".tmp-mean-2") as is_ours,
        filled_beside(tmp_path / "mean") as temporary,
    ):
        assert is_ours
        assert {*names(tmp_path)} == {".tmp-mean-2", temporary.name, *others}
        write_text(temporary / "whole", "whole")
        temporary.rename(tmp_path / "mean")
    # The one that another process fills, and another folder's, are not touched.
    assert names(tmp_path) == [".tmp-mean-2", *others, "mean"]
    assert names(tmp_path / "mean") == ["whole"]


def test_a_folder_that_is_filled_is_not_taken_for_a_leftover(tmp_path: Path) -> None:
    with filled_beside(tmp_path / "mean") as temporary:
        with locked_at_once(temporary) as is_ours:
            assert not is_ours
        write_text(temporary / "file", "")
    assert names(tmp_path) == []


def test_without_locks_nothing_that_was_left_is_in_a_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    left = tmp_path / f".tmp-mean-{os.getpid()}"
    write_text(left / "checkpoints" / "half", "half")
    (left / "link").symlink_to(tmp_path)
    with filled_beside(tmp_path / "mean") as temporary:
        assert names(temporary) == []
    assert names(tmp_path) == []


def test_half_written_files_go_by_their_name(tmp_path: Path) -> None:
    for name in (".config.json.abcdefgh.tmp", ".other.json.abcdefgh.tmp", ".config.json"):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path, "config.json")
    assert names(tmp_path) == [".config.json", ".other.json.abcdefgh.tmp"]
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".config.json"]


HOLD = (
    "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
    " print('held', flush=True); time.sleep(60)"
)


def test_training_where_another_process_trains_is_refused_until_that_is_killed(
    tmp_path: Path,
) -> None:
    run = toy_run(tmp_path, train_steps=1)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / LOCK_FILE)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "held\n"
    try:
        with pytest.raises(UserError, match="another process trains in"):
            train(run)
        assert not (tmp_path / "checkpoints").exists()
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert train(run).step == 1


def test_the_lock_is_given_up_in_the_end(tmp_path: Path) -> None:
    for _ in range(2):
        with held_alone(tmp_path), pytest.raises(UserError), held_alone(tmp_path):
            pass


def test_where_nothing_can_be_locked_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".lock").mkdir()
    with held_alone(tmp_path):
        assert "cannot be locked" in capsys.readouterr().err


def test_a_mean_of_checkpoints_cannot_be_trained_on(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    store = CheckpointStore(run.output_dir)
    store.save(
        3, tf.train.Checkpoint(model=run.make_model()), {"averaged_steps": [2, 3], "best_step": 3}
    )
    with pytest.raises(UserError, match=r"mean of the checkpoints of steps 2, 3"):
        train(run)


VALUES = {"kind": "train", "step": 120, "loss": 2.4321537017822266, "name": "ä"}
LINE = sealed(json.dumps(VALUES)).encode()


def test_a_line_is_read_without_its_checksum():
    assert read_object(LINE) == read_object(LINE + b"\n") == VALUES
    assert list(json.loads(LINE)) == [*VALUES, "crc32"]


def test_a_changed_bit_is_told_or_changes_no_value():
    told = 0
    for bit in range(8 * len(LINE)):
        content = bytearray(LINE)
        content[bit // 8] ^= 1 << bit % 8
        values = read_object(bytes(content))
        told += values is None
        # What has lost its checksum is otherwise as it was.
        assert values is None or {name: values[name] for name in VALUES} == VALUES
    assert told > 0.8 * 8 * len(LINE)


def test_lines_of_earlier_versions_and_of_others_are_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    other = b'{"step":1,"crc32":"00000000"}'
    path.write_bytes(
        json.dumps(VALUES).encode() + b"\n" + other + b"\n" + LINE.replace(b"120", b"121")
    )
    assert list(objects(path)) == [VALUES, {"step": 1, "crc32": "00000000"}]


def test_a_line_without_an_end_comes_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "MOST_JSON_BYTES", 10)
    path = tmp_path / "log"
    path.write_bytes(b"x" * 25 + b"\nshort\n")
    assert [*lines(path)] == [b"x" * 10, b"x" * 10, b"x" * 5 + b"\n", b"short\n"]


class Point(NamedTuple):
    """A pair."""

    step: int
    wall: float


@dataclass
class Inner:
    """A part."""

    ended: bool = False


@dataclass
class Record:
    """One of each type."""

    name: str
    kind: Literal["a", "b"] = "a"
    rate: float | None = None
    counts: dict[str, float] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    interval: tuple[float, float] | None = None
    sizes: list[int] = field(default_factory=list)
    inner: Inner = field(default_factory=Inner)
    anything: Any = None


FULL = Record(
    "x", "b", 1, {"loss": math.inf}, (Point(1, 0.5),), (0.0, 1.5), [3], Inner(True), {"y": [1]}
)


def test_what_is_written_is_read_and_what_is_not_finite_is_null() -> None:
    stored = json.loads(json.dumps(plain(FULL), allow_nan=False))
    assert stored["counts"] == {"loss": None} and stored["points"] == [[1, 0.5]]
    read = typed({**stored, "of_a_later_version": 1}, Record)
    assert math.isnan(read.counts.pop("loss"))
    FULL.counts.clear()
    assert read == FULL
    assert typed({"name": "x"}, Record) == Record("x")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "lacks name"),
        ({"name": 1}, "name cannot be 1"),
        ({"rate": True}, "rate cannot be true"),
        ({"rate": 10**400}, "rate cannot be 1000"),
        ({"counts": {"loss": "low"}}, 'counts cannot be "low"'),
        ({"points": [[1]]}, r"points cannot be \[1\]"),
        ({"sizes": [1.5]}, "sizes cannot be 1.5"),
        ({"inner": {"ended": 1}}, "inner ended cannot be 1"),
        ([], r"cannot be \[\]"),
    ],
)
def test_what_does_not_fit_is_named(values: Any, expected: str) -> None:
    given = {"name": "x", **values} if values else values
    with pytest.raises(ValueError, match=f"^{expected}"):
        typed(given, Record)


def test_a_line_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    assert read_typed(path, Record, "record") == []
    path.write_text('{"name": "x"}\n{"name": 3}\n')
    with pytest.raises(UserError, match=r"records\.jsonl:2 is no record \(name cannot be 3\)"):
        read_typed(path, Record, "record")
    path.write_text('{"name": "x"}\n{"na')
    assert read_typed(path, Record, "record") == [Record("x")]


PRECIOUS = "precious\n"


class Filelock314:
    """What filelock 3.14 does with a path."""

    def __init__(self, path: Path, **options: Any) -> None:
        del options
        self._path = path

    def __enter__(self) -> None:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644))

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(params=["installed", "3.14"])
def filelock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "3.14":
        monkeypatch.setattr(locks, "FileLock", Filelock314)


@contextmanager
def outside(folder: Path) -> Iterator[Path]:
    """A folder with a file that must stay as it is, and stay alone."""
    folder.mkdir()
    victim = folder / "victim"
    victim.write_text(PRECIOUS)
    victim.chmod(0o600)
    yield victim
    assert victim.read_text() == PRECIOUS
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["victim"]


@pytest.mark.usefixtures("filelock")
@pytest.mark.parametrize("name", ["victim", "made"])
def test_locks_follow_no_link(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with outside(tmp_path / "outside") as victim:
        run = tmp_path / "run"
        run.mkdir()
        for lock in (".lock", ".start.lock"):
            (run / lock).symlink_to(victim.with_name(name))
        with while_starting(run) as is_free:
            assert is_free
        with held_alone(run):
            assert "cannot be locked (.lock is a link)" in capsys.readouterr().err
        with pytest.raises(OSError, match="is a link"), exclusive(run / ".lock"):
            pass


OPENERS: list[Callable[[Path], Any]] = [
    *(open_regular, read_bounded, sha256_of),
    lambda path: [*lines(path)],
    open_to_append,
]


@pytest.mark.parametrize("open_it", OPENERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_opened(
    tmp_path: Path, open_it: Callable[[Path], Any], kind: str
) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(OSError, match=r"no regular file|[Ii]s a directory"):
        open_it(Path("/dev/zero") if kind == "device" else path)


def test_what_is_written_is_no_link(tmp_path: Path) -> None:
    with outside(tmp_path / "outside") as victim:
        for name in ("victim", "made"):
            (tmp_path / name).symlink_to(victim.with_name(name))
            with pytest.raises(OSError, match="is a link"):
                open_to_append(tmp_path / name)
        (tmp_path / "text").symlink_to(victim)
        write_text(tmp_path / "text", "anew")
        assert not (tmp_path / "text").is_symlink()
    path = tmp_path / "file"
    path.write_text("before")
    with open_to_append(path) as file:
        file.write(b"!")
    assert path.read_text() == "before!"


def link_all(folder: Path, victim: Path, *names: str) -> None:
    """Puts a link to something outside in the place of each file of a folder that is not there."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(victim if number % 2 else victim.with_name(f"made-{path.name}"))


OF_TRAINING = (
    *(".lock", ".start.lock", "processes.jsonl", ".config.json.tmp"),
    *("checkpoints/best.json", "checkpoints/tmp-step-00000002-7", "checkpoints/corrupt-step-1"),
)
OF_USE = (
    *("evaluations.jsonl", "exit_sweep.json", "exit_sweep.csv"),
    *("exit_sweep.svg", "exit_sweep.png"),
)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("odd", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_training_writes_nothing_outside(tmp_path: Path, odd: int) -> None:
    with outside(tmp_path / "outside") as victim:
        run = toy_run(tmp_path / "run", train_steps=2)
        run._write()
        link_all(run.output_dir, victim, *OF_TRAINING[odd:], *OF_TRAINING[:odd])
        assert train(run).step == 2
        link_all(run.output_dir, victim, "metrics.jsonl")
        with pytest.raises(UserError, match=r"metrics\.jsonl"):
            train(toy_run(run.output_dir, train_steps=3))


def test_figures_are_drawn_where_they_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "as_image", lambda _, form: form.encode())
    monkeypatch.setattr(style, "as_svg", lambda _: "svg")
    with outside(tmp_path / "outside") as victim:
        link_all(tmp_path / "run", victim, "exit_sweep.svg", "exit_sweep.png", "exit_sweep.pdf")
        drawn = style.save(None, tmp_path / "run" / "exit_sweep")
        assert [path.read_text() for path in drawn] == ["svg", "png", "pdf"]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_commands_write_nothing_outside(tmp_path: Path) -> None:
    with outside(tmp_path / "outside") as victim:
        run = translation_run(tmp_path)
        where = f"--output_dir={run.output_dir}"
        assert avg_checkpoints.main([where, "--n=2"]) == 0
        link_all(run.output_dir, victim, *OF_USE, *OF_USE[1:])
        link_all(run.output_dir, victim, "figures/ponder_times.svg", "figures/loss.png")
        assert eval_command.main([where, "--checkpoint=last"]) == 0
