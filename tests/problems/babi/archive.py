"""Tiny archives in the layout of bAbI tasks 1-20 v1.2, made by the tests."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

NAME = "tasks_1-20_v1-2.tar.gz"

TRAIN = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel went back to the hallway.
5 Where is John? \thallway\t2
1 John took the apple, there.
2 John took the football.
3 What is John carrying? \tapple,football\t1 2
"""
TEST = """1 Sandra travelled to the office.
2 Where is Sandra? \toffice\t1
"""


def many_stories(count: int) -> str:
    """Stories with one question each; the answer to the one of story i is room i."""
    return "".join(
        f"1 Mary moved to room{number}.\n2 Where is Mary?\troom{number}\t1\n"
        for number in range(count)
    )


def write_archive(folder: Path, files: dict[str, str]) -> Path:
    """Writes an archive with the given member names (below its root folder) and texts."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / NAME, "w:gz") as tar:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(f"tasks_1-20_v1-2/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return folder / NAME
