"""The order in which files reach the disk: a name leads to nothing that a power cut could take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.files import write_text


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, ...]]]:
    """What was flushed, ("flush", name), and renamed, ("name", from, to), in order."""
    made: list[tuple[str, ...]] = []
    fsync = os.fsync

    def flush(descriptor: int) -> None:
        made.append(("flush", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        fsync(descriptor)

    def recorded(rename: Any) -> Any:
        def record(source: Any, target: Any, **options: Any) -> None:
            made.append(("name", Path(source).name, Path(target).name))
            rename(source, target, **options)

        return record

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "rename", recorded(os.rename))
    monkeypatch.setattr(os, "replace", recorded(os.replace))
    yield made


pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")


def test_a_file_is_flushed_before_it_gets_its_name(
    tmp_path: Path, calls: list[tuple[str, ...]]
) -> None:
    write_text(tmp_path / "file", "text")
    (_, temporary), (_, source, target) = calls
    assert temporary == source
    assert target == "file"


def test_a_checkpoint_is_flushed_before_and_after_it_gets_its_name(
    tmp_path: Path, calls: list[tuple[str, ...]]
) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    value = tf.Variable(1.0)
    store.save(1, tf.train.Checkpoint(value=value), {"best_step": 1})
    final = store.path(1).name
    named = next(place for place, call in enumerate(calls) if call[-1] == final)
    temporary = calls[named][1]
    before = [call[1] for call in calls[:named] if call[0] == "flush"]
    files = {path.name for path in store.path(1).iterdir()}
    # Two are written by write_text, which flushes them under their temporary names.
    written = {call[2]: call[1] for call in calls[:named] if call[0] == "name"}
    assert all(name in before or written.get(name) in before for name in files)
    assert before[-1] == temporary
    assert calls[named + 1] == ("flush", "checkpoints")
    # The mark of the best comes after what it marks, and the folder is flushed for its name, too.
    marked = next(place for place, call in enumerate(calls) if call[-1] == "best.json")
    assert marked > named + 1
    assert calls[marked + 1] == ("flush", "checkpoints")


def test_an_older_checkpoint_goes_after_the_newer_one_is_on_the_disk(
    tmp_path: Path, calls: list[tuple[str, ...]]
) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    value = tf.Variable(1.0)
    for step in (1, 2):
        del calls[:]
        store.save(step, tf.train.Checkpoint(value=value), {"best_step": step})
    gone = next(place for place, call in enumerate(calls) if call[:2] == ("name", "step-00000001"))
    named = next(place for place, call in enumerate(calls) if call[-1] == "step-00000002")
    assert ("flush", "checkpoints") in calls[named:gone]
