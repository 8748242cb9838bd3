"""Files of a tiny parallel text, prepared once for all tests of a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.problems.translation.small_corpus import DEV, TEST, TRAIN, problem_of, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of train, dev and test; data/ below it is prepared."""
    folder = tmp_path_factory.mktemp("files")
    for name, pairs in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        write(folder, name, pairs)
    problem_of(folder).prepare(folder / "data", folder)
    return folder
