"""Files are complete or absent; a lock is held by one process at a time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ut_tf.storage.files import write_text
from ut_tf.storage.locks import exclusive

ROOT = Path(__file__).parents[2]


def test_writing_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_text(path, "first")
    write_text(path, "secönd")
    assert path.read_text(encoding="utf-8") == "secönd"
    assert [item.name for item in path.parent.iterdir()] == ["file.txt"]


def test_another_process_waits_for_the_lock(tmp_path: Path) -> None:
    lock, told = tmp_path / "lock", tmp_path / "told"
    code = f"""
from pathlib import Path
from ut_tf.storage.locks import exclusive
Path({str(told)!r} + ".started").touch()
with exclusive(Path({str(lock)!r})):
    Path({str(told)!r}).touch()
"""
    with exclusive(lock):
        other = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
        deadline = time.monotonic() + 20
        while not Path(f"{told}.started").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert not told.exists()
    assert other.wait(timeout=20) == 0
    assert told.exists()
