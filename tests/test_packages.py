"""Messages name packages as pip finds them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.packages import check_package, imported

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("ut_tf", "bin", "problems", "hparams", "docs", "notebooks", "page/src")


def test_a_missing_package_is_named_as_pip_finds_it() -> None:
    check_package("numpy", "figures need")
    assert imported("json.decoder", "texts need").JSONDecoder
    with pytest.raises(UserError) as raised:
        check_package("absent_beam", "work needs", "absent-beam", "leave it out")
    assert str(raised.value) == (
        "work needs absent-beam, which is not installed: pip install absent-beam, or leave it out."
    )
    with pytest.raises(UserError, match=r"^scores need absent, which .*: pip install absent\.$"):
        imported("absent.metrics", "scores need")


def test_no_text_says_to_install_ut_tf_from_the_index() -> None:
    # It is not there: who registers the name would be installed in its place.
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    files = [ROOT / "README.md"] + [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".ipynb", ".ts"}
    ]
    assert len(files) > 300
    pattern = re.compile(rf"{name}\[|pip install {name}\b")
    found = [str(path) for path in files if pattern.search(path.read_text(encoding="utf-8"))]
    assert found == []
