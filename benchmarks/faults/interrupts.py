"""Sends Ctrl-C (SIGINT) to commands in their first moments, and looks at what they say.

How it is used::

    python benchmarks/faults/interrupts.py --moments=50

A command starts as a shell starts it, by its script beside this Python, and gets the signal at a
seeded moment. It ends in one line, "ut-x: interrupted", with status 130 ("line"); without a word,
before Python begins ("silent"); with the trace of Python's own start ("start"), which no command
can avoid; or with another trace ("trace"), which is a failure. The line of JSON of each command has
the counts and the latest moment that ended in a trace, in seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPTS = Path(sys.executable).parent
# They load TensorFlow and work on, or wait for a line, for longer than the latest moment.
COMMANDS = {
    "ut-trainer": ("--problem=babi_sim", "--hparams_set=ut_babi", "--output_dir=run"),
    "ut-decoder": ("--model=reverse",),
}
_LONGEST = 60.0
# What a command imports when it handles the signal already, but for _EARLY.
_PACKAGES = ("ut_tf", "ut_tf.bin", "ut_tf.hparams", "ut_tf.problems", "tensorflow", "keras")
_EARLY = {"ut_tf": ("__init__.py", "version.py"), "ut_tf.bin": ("__init__.py", "entry.py")}


def outcome(command: str, moment: float, folder: Path) -> tuple[str, str]:
    """What the signal at a moment leads to ("line", "silent", "start", "trace"), and the messages.

    Args:
      command: its name.
      moment: seconds after its start.
      folder: in which it works.
    """
    process = subprocess.Popen(
        [SCRIPTS / command, *COMMANDS[command]],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "UT_TF_TRACEBACK": ""},
    )
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    try:
        _, messages = process.communicate(timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        return "trace", f"no end within {_LONGEST:.0f} seconds: {process.communicate()[1]}"
    if (process.returncode, messages) == (130, f"{command}: interrupted\n"):
        return "line", messages
    if process.returncode == -signal.SIGINT and not messages:
        return "silent", messages
    return "start" if is_of_start(messages) else "trace", messages


def is_of_start(messages: str) -> bool:
    """Whether messages are the trace of a Ctrl-C from before a command handled it."""
    if "KeyboardInterrupt" not in messages:
        return False
    folders = {name: _folder(name) for name in _PACKAGES}
    early = {folders[name] / file for name, files in _EARLY.items() for file in files}
    frames = {Path(file) for file in re.findall(r'File "(.+?)", line', messages)}
    return not any(
        frame.is_relative_to(folder) for frame in frames - early for folder in folders.values()
    )


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def tried(command: str, moments: list[float]) -> bool:
    """Tries all moments and prints the line of JSON; returns whether one fell short."""
    counts = {"line": 0, "silent": 0, "start": 0, "trace": 0}
    traced: list[float] = []
    for moment in moments:
        with tempfile.TemporaryDirectory() as folder:
            kind, messages = outcome(command, moment, Path(folder))
        counts[kind] += 1
        if kind in ("start", "trace"):
            traced.append(moment)
        if kind == "trace":
            print(f"{command} after {moment:.3f} s:\n{messages}", file=sys.stderr, flush=True)
    latest = round(max(traced), 3) if traced else None
    print(json.dumps({"command": command, **counts, "latest_trace_seconds": latest}), flush=True)
    return counts["trace"] > 0


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--moments", type=int, default=50, help="for each command")
    command.add_argument("--seconds", type=float, default=0.5, help="the latest moment")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--commands", default=",".join(COMMANDS))
    arguments = command.parse_args()
    # A process that ignores the signal would have its children ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    generator = random.Random(arguments.seed)
    moments = [generator.uniform(0.0, arguments.seconds) for _ in range(arguments.moments)]
    failed = [name for name in arguments.commands.split(",") if tried(name, moments)]
    if failed:
        sys.exit(f"fell short: {', '.join(failed)}")


if __name__ == "__main__":
    main()
