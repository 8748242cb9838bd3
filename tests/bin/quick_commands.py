"""Commands that answer without TensorFlow, called one after the other in one fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

HEAVY = ("tensorflow", "keras", "numpy")
SCRIPT = f"""
import contextlib, importlib, io, json, sys

answers = []
for module, argv in json.loads(sys.argv[1]):
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = importlib.import_module("ut_tf.bin." + module).main(argv)
    imported = [name for name in {HEAVY!r} if name in sys.modules]
    answers.append([status, output.getvalue(), errors.getvalue(), imported])
print(json.dumps(answers))
"""


class Answer(NamedTuple):
    """What a command answered.

    Fields:
      status: its exit status.
      output: what it wrote to standard output.
      errors: what it wrote to standard error.
      imported: names of the heavy packages that were imported by it or a command before it.
    """

    status: int
    output: str
    errors: str
    imported: list[str]


def call_commands(calls: Sequence[tuple[str, list[str]]]) -> list[Answer]:
    """The answers of commands, each given as its module in ut_tf.bin and its arguments."""
    command = [sys.executable, "-c", SCRIPT, json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [Answer(*values) for values in json.loads(done.stdout)]
