"""Prepared folders: filled once, recognised, and every damage named."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ut_tf.data.prepared import SUMMARY_FILE, PreparedFolder, source_record
from ut_tf.errors import UserError


def folder_in(path: Path) -> PreparedFolder:
    return PreparedFolder(
        path / "corpus-1", needed=["words.txt"], fields={"vocab_size": int, "files": list}
    )


def fill(folder: PreparedFolder, sources: list[Path] | None = None) -> None:
    folder.path.mkdir(parents=True, exist_ok=True)
    (folder.path / "words.txt").write_text("a\nb")
    (folder.path / "train.npz").write_text("ids")
    folder.finish(
        {
            "vocab_size": 4,
            "files": [source_record(path) for path in sources or []],
            "sha256": folder.digests(["words.txt", "train.npz"]),
        }
    )


def test_a_folder_is_filled_once_however_many_start_at_once(tmp_path: Path) -> None:
    folder, calls = folder_in(tmp_path), []

    def make() -> None:
        calls.append(threading.get_ident())
        fill(folder)

    threads = [threading.Thread(target=folder_in(tmp_path).make_once, args=[make]) for _ in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert not folder.make_once(make)
    assert folder.summary()["vocab_size"] == 4


def test_a_preparation_that_was_stopped_is_not_complete(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        folder.make_once(lambda: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert not folder.is_complete()
    assert folder.make_once(lambda: fill(folder))


def _change(name: str, value: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        summary = json.loads((path / SUMMARY_FILE).read_text())
        summary[name] = value
        (path / SUMMARY_FILE).write_text(json.dumps(summary))

    return change


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: (path / SUMMARY_FILE).write_text("{"), "JSONDecodeError"),
        (lambda path: (path / SUMMARY_FILE).write_bytes(b"\xff"), "UnicodeDecodeError"),
        (lambda path: (path / SUMMARY_FILE).write_text("[]"), r"summary\.json holds no object"),
        (lambda path: (path / SUMMARY_FILE).write_text("{}"), "has no 'vocab_size'"),
        (_change("files", None), "has no 'files'"),
        (_change("vocab_size", "4"), "has no 'vocab_size'"),
        (_change("sha256", "x"), "AttributeError"),
        (lambda path: (path / "words.txt").write_text("a"), r"words\.txt is not as it was written"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Callable[[Path], None], reason: str) -> None:
    folder = folder_in(tmp_path)
    fill(folder)
    damage(folder.path)
    with pytest.raises(UserError, match=rf"corpus-1 is damaged \(.*{reason}.*\): delete it"):
        folder.summary()


def test_other_files_are_checked_when_they_are_read(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    fill(folder)
    assert folder.verified("train.npz").read_text() == "ids"
    (folder.path / "train.npz").write_text("other")
    assert folder.summary()
    with pytest.raises(UserError, match=r"train\.npz is not as it was written"):
        folder.verified("train.npz")
    (folder.path / "train.npz").unlink()
    with pytest.raises(UserError, match="is damaged"):
        folder.verified("train.npz")


def test_a_source_may_be_touched_or_gone_but_not_changed(tmp_path: Path) -> None:
    source = tmp_path / "text.en"
    source.write_text("one")
    folder = folder_in(tmp_path)
    fill(folder, [source])
    os.utime(source, ns=(1, 1))
    folder.refuse_changed_sources()
    source.write_text("two")
    with pytest.raises(UserError, match=r"text\.en has changed since .*corpus-1 was prepared"):
        folder.refuse_changed_sources()
    source.unlink()
    folder.refuse_changed_sources()
    _change("files", [{"size": 3}])(folder.path)
    with pytest.raises(UserError, match="is damaged"):
        folder.refuse_changed_sources()
