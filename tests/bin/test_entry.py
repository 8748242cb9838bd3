"""The first moments of a command: Ctrl-C is one line while Python still imports it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from ut_tf.bin import entry

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, signal, sys
from ut_tf.bin import entry

class Finder:
    def find_spec(self, name, *_):
        if name == "absl":
            os.kill(os.getpid(), signal.SIGINT)

early = {name for name in sys.modules if name.startswith("ut_tf.")}
assert early == {"ut_tf.version", "ut_tf.bin", "ut_tf.bin.entry"}, early
signal.signal(signal.SIGINT, signal.HANDLER)
sys.meta_path.insert(0, Finder())
sys.argv = ["ut-bleu", "--nothing"]
sys.exit(entry.bleu())
"""
# Ctrl-C around and in the work of a command whose modules are imported.
LATER = """
import os, signal, sys
from ut_tf.bin import bleu, entry
from ut_tf.bin.frame.command import entry_point

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def main():
    if MOMENT == "before":
        interrupt()
    status = whole_main()
    if MOMENT == "after":
        interrupt()
    return status

def body(_):
    try:
        if MOMENT == "within":
            interrupt()
    finally:
        print("cleaned up", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
whole_main, bleu.main = entry_point("ut-bleu", ())(body), main
sys.argv = ["ut-bleu"]
sys.exit(entry.bleu())
"""


@pytest.mark.parametrize(
    ("handler", "status", "message"),
    [
        ("default_int_handler", 130, "ut-bleu: interrupted\n"),
        ("SIG_IGN", 2, "ut-bleu: error: unknown flag --nothing"),
    ],
)
def test_ctrl_c_while_a_command_is_imported(handler: str, status: int, message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("HANDLER", handler)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("moment", "answer"), [("before", ""), ("within", "cleaned up\n"), ("after", "cleaned up\n")]
)
def test_ctrl_c_once_a_command_is_imported(moment: str, answer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATER.replace("MOMENT", repr(moment))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, answer, "ut-bleu: interrupted\n")


def test_ctrl_c_with_standard_error_closed() -> None:
    script = SCRIPT.replace("HANDLER", "default_int_handler")
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, script],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, b"")


def test_every_script_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for script, target in project["scripts"].items():
        module, _, name = target.partition(":")
        assert module == entry.__name__
        assert isinstance(getattr(entry, name), Callable)
        # The word import alone is Python's.
        assert script == f"ut-{name.removesuffix('_run').replace('_', '-')}"
