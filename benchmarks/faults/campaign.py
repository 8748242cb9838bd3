"""Runs all fault campaigns, one after the other, and prints a report (``make faults``).

How it is used::

    python benchmarks/faults/campaign.py             # whole, half an hour
    python benchmarks/faults/campaign.py --sample    # some of them, for a minute

The exit status is 1 if something fell short of what docs/reliability.md promises.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from frame import table

FOLDER = Path(__file__).resolve().parent

# What each script tests, as a heading of the report.
SCRIPTS = {
    "fuzz.py": "Parsers, fed with damaged and made up inputs",
    "damaged.py": "Files of a run, a bit flipped or cut short",
    "full_disk.py": "Writing where no file may grow beyond a seeded size",
    "kills.py": "Commands killed and started again, results compared to the last bit",
    "workers.py": "One of several workers disturbed, then all started again",
}
SAMPLE = {"fuzz.py": ["--seconds=5"], "damaged.py": ["--seconds=6"]}
# What a script prints before it is stopped counts; none should need as long.
_MOST_SECONDS = 1500


def main() -> None:
    """Runs the scripts."""
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--sample", action="store_true", help="those that take little time")
    command.add_argument("--seed", type=int, default=0, help="of all that is random")
    arguments = command.parse_args()
    began, sections, failed = time.monotonic(), [], []
    for script in SAMPLE if arguments.sample else SCRIPTS:
        flags = SAMPLE[script] if arguments.sample else []
        status, rows, seconds = run_script(script, [*flags, f"--seed={arguments.seed}"])
        print(f"{script}: status {status}, {seconds:.0f} s", file=sys.stderr, flush=True)
        sections.append(f"## {SCRIPTS[script]} ({script}, {seconds:.0f} s)\n\n{table(rows)}")
        sections += [f"- {row['fault']}: {what}" for row in rows for what in row["short"]]
        if status != 0:
            failed.append(script)
    minutes = (time.monotonic() - began) / 60
    verdict = f"Fell short: {', '.join(failed)}." if failed else "Nothing fell short."
    print(f"# Faults\n\n{describe(arguments.seed, minutes)}\n\n{verdict}", end="\n\n")
    print("\n\n".join(sections))
    sys.exit(bool(failed))


def run_script(script: str, flags: list[str]) -> tuple[int, list[dict[str, Any]], float]:
    """Runs a script: its status, its counts and its seconds."""
    began = time.monotonic()
    line = [sys.executable, str(FOLDER / script), "--json", *flags]
    limited = ["timeout", "--foreground", "--signal=KILL", str(_MOST_SECONDS), *line]
    done = subprocess.run(limited, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(text) for text in done.stdout.splitlines() if text.startswith('{"fault"')]
    return done.returncode, rows, time.monotonic() - began


def describe(seed: int, minutes: float) -> str:
    """The versions and the machine that were tested."""
    from ut_tf.config.processor import speed_flags
    from ut_tf.version import __version__

    flags = ", ".join(speed_flags()) or "unknown flags"
    tensorflow = importlib.metadata.version("tensorflow")
    return (
        f"ut-tf {__version__}, TensorFlow {tensorflow}, {os.cpu_count()} cores with {flags},"
        f" seed {seed}, {minutes:.0f} minutes."
    )


if __name__ == "__main__":
    main()
