"""LAMBADA's archive in small, and what the problems make of it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from ut_tf.problems.lambada.archive import ARCHIVE, NOVELS_FILE, PASSAGE_FILES, VOCABULARY_FILE

NOVELS = {
    "train-novels/Adventure/a.txt": "he saw zork and zork saw him . the cat sat .\n",
    "train-novels/Romance/b.txt": "she saw the cat and the cat saw quux .\n",
}
VOCABULARY = "and\t3\ncat\t3\nhe\t1\nsat\t1\nsaw\t4\nshe\t1\nthe\t4\n.\t3\n"
PASSAGES = {
    "validation": "zork saw the cat . she saw zork\nthe cat saw him . he saw blob\n",
    "test": "he saw the cat . the cat\n",
    "control": "she saw the cat . he sat\n",
}


def add_member(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def novels_tar(texts: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in texts.items():
            add_member(archive, name, text if isinstance(text, bytes) else text.encode())
    return buffer.getvalue()


def write_archive(folder: Path, without: str = "", **changes: str | bytes) -> Path:
    """Writes LAMBADA's archive in small; `changes` by split, `novels` or `vocabulary`."""
    contents: dict[str, Any] = {
        file: changes.get(split, PASSAGES[split]) for split, file in PASSAGE_FILES.items()
    }
    contents[VOCABULARY_FILE] = changes.get("vocabulary", VOCABULARY)
    contents[NOVELS_FILE] = changes.get("novels", novels_tar(NOVELS))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ARCHIVE.file
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            if name != without:
                add_member(
                    archive, name, content if isinstance(content, bytes) else content.encode()
                )
    return path


def prepared(problem: Any, tmp_path: Path, tmp_dir: Path | None = None) -> Path:
    problem.prepare(tmp_path / "data", tmp_dir or tmp_path / "tmp")
    return tmp_path / "data"


def symbols_of(problem: Any, data_dir: Path) -> list[str]:
    return ["", "<end>", *problem.vocab_files(data_dir)[0].read_text().split("\n")]


def spoken(problem: Any, data_dir: Path, ids: Any) -> str:
    symbols = symbols_of(problem, data_dir)
    return " ".join(symbols[number] for number in np.asarray(ids) if number)
