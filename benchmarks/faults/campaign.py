"""Runs all fault campaigns, one after the other (``make faults``).

How it is used::

    python benchmarks/faults/campaign.py             # whole
    python benchmarks/faults/campaign.py --sample    # those that take little time

Prints the lines of JSON of all scripts, and fails if one of them does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
# What a script prints before it is stopped counts; none should need as long.
_MOST_SECONDS = 1500
WHOLE = (
    ("fuzz.py", "--inputs=10000", "--seconds=30"),
    ("commands.py", "--seconds=400"),
    ("disks.py", "--seconds=20", "--positions=100", "--trials=5"),
    ("kills.py", "--seconds=600"),
    ("interrupts.py", "--moments=50"),
    ("ledger.py", "--seconds=200"),
    ("workers.py", "--seconds=360"),
    ("soak.py", "--seconds=180", "--lines=20000", "--requests=10000"),
    ("costs.py", "--repetitions=3", "--updates=50"),
)
SAMPLE = (
    ("fuzz.py", "--inputs=200", "--seconds=2", "--parsers=babi,hparams,config_json"),
    ("commands.py", "--inputs=180", "--seconds=15", "--no_good_lines"),
    ("disks.py", "--seconds=1.5", "--positions=10", "--faults=flips,cuts"),
)


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--sample", action="store_true", help="those that take little time")
    arguments = command.parse_args()
    failed = []
    for script, *words in SAMPLE if arguments.sample else WHOLE:
        began = time.monotonic()
        line = [sys.executable, str(FOLDER / script), *words]
        try:
            status = subprocess.run(line, timeout=_MOST_SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            status = -1
        seconds = round(time.monotonic() - began)
        print(json.dumps({"script": script, "status": status, "seconds": seconds}), flush=True)
        if status != 0:
            failed.append(script)
    if failed:
        sys.exit(f"fell short: {', '.join(failed)}")


if __name__ == "__main__":
    main()
