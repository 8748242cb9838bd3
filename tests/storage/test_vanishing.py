"""Checkpoints that a training removes and replaces while they are read."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.storage.checkpoints import (
    CheckpointGone,
    CheckpointStore,
    manifest_digest,
    read_state,
    restore,
    stored_numbers,
)
from ut_tf.storage.find_checkpoint import find_checkpoint, read_checkpoint

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
