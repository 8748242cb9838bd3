"""Checkpoints: whole or absent, found damaged, pruned, and what happens when the disk is full."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.errors import UserError
from ut_tf.storage import checkpoints
from ut_tf.storage.checkpoints import (
    CheckpointGone,
    CheckpointStore,
    find_fault,
    manifest_digest,
    read_state,
    restore,
    stored_numbers,
)
from ut_tf.storage.disk_errors import disk_errors
from ut_tf.storage.find_checkpoint import find_checkpoint, read_checkpoint
from ut_tf.storage.layout import step_of


class Counter:
    """A variable in a checkpoint; its value tells which one was restored."""

    def __init__(self) -> None:
        self.value = tf.Variable(0.0)
        self.checkpoint = tf.train.Checkpoint(value=self.value)

    def save(self, store: CheckpointStore, step: int, best_step: int | None = None) -> Path:
        self.value.assign(float(step))
        return store.save(step, self.checkpoint, {"best_step": best_step})

    def load(self, path: Path | None) -> float:
        assert path is not None
        restore(path, self.checkpoint)
        return float(self.value)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path, keep=2)


def test_the_latest_and_the_best_are_kept(store: CheckpointStore) -> None:
    counter = Counter()
    for step, best in [(10, 10), (20, 20), (30, 20), (40, 20), (50, 20)]:
        counter.save(store, step, best)
    assert store.steps() == [20, 40, 50]
    assert store.best_step() == 20
    assert counter.load(store.newest_intact()) == 50.0
    assert read_state(store.path(20))["step"] == 20
    counter.save(store, 60, 60)
    assert store.steps() == [50, 60]


@pytest.mark.parametrize("damage", ["flip", "cut", "missing", "manifest"])
def test_a_damaged_checkpoint_is_skipped_with_one_line(
    store: CheckpointStore, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counter = Counter()
    counter.save(store, 1)
    newest = counter.save(store, 2)
    data = next(newest.glob("variables.data*"))
    content = bytearray(data.read_bytes())
    if damage == "flip":
        content[0] ^= 1
        data.write_bytes(content)
    elif damage == "cut":
        data.write_bytes(content[:-1])
    elif damage == "missing":
        data.unlink()
    else:
        (newest / "manifest.json").write_text("{")
    assert find_fault(newest) is not None
    assert counter.load(store.newest_intact()) == 1.0
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 1
    assert str(newest) in warnings[0]
    store.set_aside_newer(1)
    assert store.steps() == [1]
    assert (store.folder / "corrupt-step-00000002").is_dir()


def test_no_intact_checkpoint_left_is_the_users_error(store: CheckpointStore) -> None:
    counter = Counter()
    for step in (1, 2):
        (counter.save(store, step) / "state.json").write_text("{}")
    with pytest.raises(UserError, match="none of its 2 checkpoints is intact"):
        store.newest_intact()


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_the_only_checkpoint_without_numbers_is_told(
    store: CheckpointStore, damage: Callable[[Path], Any]
) -> None:
    assert stored_numbers(store.folder.parent) is None
    damage(Counter().save(store, 1) / "variables.data-00000-of-00001")
    with pytest.raises(UserError, match="none of its 1 checkpoints is intact"):
        stored_numbers(store.folder.parent)


def full_disk_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        del descriptor
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints.os, "fsync", refuse)


def full_disk_in_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, path: str) -> None:
        del self
        Path(path + ".data-00000-of-00001").write_bytes(b"half")
        raise tf.errors.ResourceExhaustedError(None, None, f"{path}; No space left on device")

    monkeypatch.setattr(tf.train.Checkpoint, "write", refuse)


@pytest.mark.parametrize("fill", [full_disk_in_python, full_disk_in_tensorflow])
def test_a_full_disk_leaves_the_older_checkpoints(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, fill: Any
) -> None:
    counter = Counter()
    counter.save(store, 1, 1)
    with monkeypatch.context() as patch:
        fill(patch)
        with pytest.raises(UserError, match=rf"{store.folder}: the disk is full"):
            store.save(2, counter.checkpoint, {"best_step": 2}, needed_bytes=12_300_000)
    assert sorted(path.name for path in store.folder.iterdir()) == ["best.json", "step-00000001"]
    assert counter.load(store.newest_intact()) == 1.0
    assert store.best_step() == 1


def test_other_errors_are_not_taken_for_a_full_disk(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        del descriptor
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(checkpoints.os, "fsync", refuse)
    with pytest.raises(UserError, match=rf"{store.folder} cannot be written \(Input/output"):
        Counter().save(store, 1)
    assert list(store.folder.iterdir()) == []


def test_what_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path, reason in [
        (tmp_path, "Is a directory"),
        (file / "x", "Not a directory"),
        (tmp_path / "none" / "x", "No such file or directory"),
    ]:
        told = rf"^{path} cannot be written \({reason}\): name another --flag\.$"
        with (
            pytest.raises(UserError, match=told),
            disk_errors(path, advice="name another --flag"),
        ):
            path.write_text("x")


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file", "/elsewhere/data/train.txt"),
        BrokenPipeError(32, "Broken pipe"),
    ],
)
def test_errors_of_other_files_and_of_pipes_pass(tmp_path: Path, error: OSError) -> None:
    with pytest.raises(type(error)), disk_errors(tmp_path / "run"):
        raise error


def test_only_training_goes_on_after_a_full_disk(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(UserError, match="training goes on"), disk_errors(tmp_path):
        raise full
    with (
        pytest.raises(UserError, match=r"disk is full.*give the same command again\.$"),
        disk_errors(tmp_path, advice="do"),
    ):
        raise full


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EFBIG, os.strerror(errno.EFBIG)),
        tf.errors.OutOfRangeError(None, None, "/run/variables.data; File too large"),
    ],
)
def test_a_limit_of_file_sizes_is_told(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(UserError, match="ulimit -f permits"), disk_errors(tmp_path):
        raise error


def test_leftovers_of_killed_runs_are_removed(store: CheckpointStore) -> None:
    counter = Counter()
    counter.save(store, 1)
    (store.folder / "tmp-step-00000002-77").mkdir()
    (store.folder / "tmp-step-00000002-77" / "variables.index").write_text("half")
    (store.folder / "tmp-best.json-77").write_text("{")
    store.remove_leftovers()
    assert [path.name for path in store.folder.iterdir()] == ["step-00000001"]


def test_a_checkpoint_of_another_network_is_refused(store: CheckpointStore) -> None:
    path = Counter().save(store, 1)
    with pytest.raises(UserError, match="do not fit this network"):
        restore(path, tf.train.Checkpoint(value=tf.Variable([0.0, 0.0])))
    with pytest.raises(UserError, match="do not fit this network"):
        restore(path, tf.train.Checkpoint(value=tf.Variable(0.0), more=tf.Variable(0.0)))


def test_a_refused_checkpoint_is_told_without_warnings_of_tensorflow(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(1, tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0)), {})
    with pytest.raises(UserError, match="do not fit"):
        restore(store.path(1), tf.train.Checkpoint(c=tf.Variable(1.0)), partial=True)
    gc.collect()
    assert not [record for record in caplog.records if "could not be found" in record.message]


@pytest.mark.parametrize("name", ["step-²", "step-" + "9" * 5000, "step-1x"])
def test_other_folders_are_no_checkpoints(store: CheckpointStore, name: str) -> None:
    store.save(1, tf.train.Checkpoint(a=tf.Variable(1.0)), {})
    with contextlib.suppress(OSError):
        (store.folder / name).mkdir()
    assert store.steps() == [1]
    assert step_of(name) is None


def test_a_damaged_best_mark_is_told(
    store: CheckpointStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counter = Counter()
    for step in (2, 6):
        counter.save(store, step, best_step=2)
    best = store.folder / "best.json"
    assert find_checkpoint(tmp_path, "best") == store.path(2)
    assert capsys.readouterr().err == ""
    # One bit, and the name of another checkpoint.
    best.write_text(best.read_text().replace(": 2,", ": 6,"))
    assert find_checkpoint(tmp_path, "best") == store.path(6)
    assert "best.json is damaged" in capsys.readouterr().err
    store.mark_best(2)
    assert find_checkpoint(tmp_path, "best") == store.path(2)


def test_the_best_mark_survives_a_strange_file(store: CheckpointStore) -> None:
    Counter().save(store, 1, 1)
    for content in ("[1]", '{"step": 1e999}', "[" * 100_000, f'{{"step": {10**400}}}'):
        (store.folder / "best.json").write_text(content)
        assert store.best_step() is None
    store.mark_best(1)
    assert store.best_step() == 1


_watchers: list[Callable[[str], None]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    # What Python opens and lists; a hook cannot be removed.
    if _watchers and event in ("open", "os.listdir", "os.scandir"):
        _watchers[-1](os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else "")


sys.addaudithook(_audit)


class Training:
    """A training that keeps one checkpoint, whose number is its step."""

    def __init__(self, output_dir: Path) -> None:
        self.store = CheckpointStore(output_dir, keep=1)
        self._value = tf.Variable(0.0)
        self.step = 0

    def save(self, step: int | None = None) -> None:
        """Saves the checkpoint of the next step, the best so far, and removes the one before."""
        self.step = self.step + 1 if step is None else step
        self._value.assign(float(self.step))
        checkpoint = tf.train.Checkpoint(value=self._value)
        self.store.save(self.step, checkpoint, {"best_step": self.step})


@pytest.fixture
def training(tmp_path: Path) -> Training:
    training = Training(tmp_path)
    training.save()
    return training


def read(directory: Path) -> tuple[float, int]:
    value = tf.Variable(-1.0)
    restore(directory, tf.train.Checkpoint(value=value))
    return float(value), read_state(directory)["step"]


@pytest.fixture
def saves_at(training: Training) -> Iterator[Callable[[int], list[int]]]:
    """Has the training save when the reader opens or lists something of the run for the n-th time
    from now, counted from 0; gives what is counted.
    """

    def arm(moment: int) -> list[int]:
        seen = [0]

        def watch(path: str) -> None:
            if str(training.store.folder) in path:
                seen[0] += 1
                if seen[0] == moment + 1:
                    watcher = _watchers.pop()
                    training.save()
                    _watchers.append(watcher)

        _watchers[:] = [watch]
        return seen

    yield arm
    _watchers.clear()


@pytest.mark.parametrize("which", ["best", "last"])
def test_whenever_a_checkpoint_goes_the_newest_takes_its_place(
    training: Training, saves_at: Callable[[int], list[int]], which: str
) -> None:
    moment, seen = 0, [1]
    while seen[0] > moment:
        seen = saves_at(moment)
        value, step = read_checkpoint(training.store.folder.parent, which, read)
        assert value == step >= training.step - 1
        moment += 1
    # Mark, list, manifest, files and state.
    assert moment > 6


def test_one_that_has_gone_is_told_with_the_step_that_is_used(
    training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    def slowly(directory: Path) -> tuple[float, int]:
        if training.step == 1:
            training.save()
        return read(directory)

    assert read_checkpoint(training.store.folder.parent, "best", slowly) == (2.0, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert "step-00000001 has gone while it was read; the one that has taken its place" in line


def test_one_that_was_asked_for_is_not_replaced(training: Training) -> None:
    def slowly(directory: Path) -> tuple[float, int]:
        training.save()
        return read(directory)

    with pytest.raises(CheckpointGone, match=r"step-00000001 has gone while it was read.*again"):
        read_checkpoint(training.store.folder.parent, "1", slowly)
    with pytest.raises(CheckpointGone, match=r"`checkpoint`=1: there is no .*step-00000001"):
        find_checkpoint(training.store.folder.parent, "1")


def test_a_checkpoint_of_the_same_step_is_another_one(training: Training) -> None:
    """A training that was resumed from an older checkpoint saves the same steps again."""
    tried = []

    def slowly(directory: Path) -> tuple[float, int]:
        found = read(directory)
        if not tried:
            training._value.assign(7.0)
            checkpoint = tf.train.Checkpoint(value=training._value)
            training.store.save(1, checkpoint, {"best_step": 1})
        tried.append(found)
        return found

    assert read_checkpoint(training.store.folder.parent, "last", slowly) == (7.0, 1)
    assert tried == [(1.0, 1), (7.0, 1)]


def test_a_training_that_is_too_fast_is_told(training: Training) -> None:
    def too_slowly(directory: Path) -> tuple[float, int]:
        training.save()
        return read(directory)

    with pytest.raises(CheckpointGone, match=r"has gone.*keep_checkpoint_max"):
        read_checkpoint(training.store.folder.parent, "last", too_slowly)


def test_what_has_gone_is_called_gone(training: Training, tmp_path: Path) -> None:
    gone = training.store.path(1)
    assert stored_numbers(tmp_path)
    shutil.rmtree(gone)
    for reader in (read, read_state, manifest_digest):
        with pytest.raises(CheckpointGone, match="has gone while it was read"):
            reader(gone)
    assert stored_numbers(tmp_path) is None
