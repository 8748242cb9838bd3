"""Folders that are filled beside their place: what killed processes have left of them goes."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from ut_tf.storage.files import remove_leftovers, write_text
from ut_tf.storage.leftovers import filled_beside, locked_at_once


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
