"""Folders that cannot be made are refused before anything is computed for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.storage.folders import check_writable


@pytest.mark.parametrize("parts", [("a" * 300,), ("new", "a" * 300), ("ä" * 200, "new")])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, parts: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match=r"`figures`=.*name too long"):
        check_writable(tmp_path.joinpath(*parts), "figures")
    check_writable(tmp_path / "new" / ("a" * 200), "figures")
