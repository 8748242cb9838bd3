"""Folders that are filled beside their place: what killed processes have left of them goes."""

from __future__ import annotations

from pathlib import Path

from ut_tf.storage.files import remove_leftovers, write_text
from ut_tf.storage.leftovers import filled_beside, locked_at_once


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_filled_beside_and_what_was_left_of_it_goes(tmp_path: Path) -> None:
    for name in (".tmp-mean-1/half", ".tmp-mean-2/half", ".tmp-other-1/half"):
        write_text(tmp_path / name, "half")
    with (
        locked_at_once(tmp_path / ".tmp-mean-2") as is_ours,
        filled_beside(tmp_path / "mean") as temporary,
    ):
        assert is_ours
        assert {*names(tmp_path)} == {".tmp-mean-2", temporary.name, ".tmp-other-1"}
        write_text(temporary / "whole", "whole")
        temporary.rename(tmp_path / "mean")
    # The one that another process fills, and another folder's, are not touched.
    assert names(tmp_path) == [".tmp-mean-2", ".tmp-other-1", "mean"]
    assert names(tmp_path / "mean") == ["whole"]


def test_a_folder_that_is_filled_is_not_taken_for_a_leftover(tmp_path: Path) -> None:
    with filled_beside(tmp_path / "mean") as temporary:
        with locked_at_once(temporary) as is_ours:
            assert not is_ours
        write_text(temporary / "file", "")
    assert names(tmp_path) == []


def test_half_written_files_go_by_their_name(tmp_path: Path) -> None:
    for name in (".config.json.abcdefgh.tmp", ".other.json.abcdefgh.tmp", ".config.json"):
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path, "config.json")
    assert names(tmp_path) == [".config.json", ".other.json.abcdefgh.tmp"]
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".config.json"]
