"""Measures the throughput and latency of a server that runs: ut-serve, or TensorFlow Serving.

How it is used::

    ut-serve --export_dir=export/ende --noaccess_log &
    python benchmarks/serving.py --examples=examples.jsonl
    python benchmarks/serving.py --examples=examples.jsonl --clients=64 --model_name=ende

A line of examples.jsonl is {"inputs": "Two dogs run."}. Each client sends one example after the
other, each in a request of its own, over one connection. The last line on standard output is JSON.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from measuring import Machine, report  # noqa: E402


def latencies(url: str, bodies: Sequence[bytes], seconds: float) -> list[float]:
    """Seconds of each answer that one client gets within a time."""
    taken: list[float] = []
    end = time.monotonic() + seconds
    with requests.Session() as session:
        for body in itertools.cycle(bodies):
            start = time.monotonic()
            session.post(url, body, timeout=seconds).raise_for_status()
            now = time.monotonic()
            if now > end:
                break
            taken.append(now - start)
    return taken


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="http://localhost:8501")
    parser.add_argument("--model_name", default="model")
    parser.add_argument("--examples", required=True, help="an example a line, as a JSON object")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args(argv)

    examples = Path(options.examples).read_text(encoding="utf-8").splitlines()
    bodies = [f'{{"instances": [{example}]}}'.encode() for example in examples]
    url = f"{options.server}/v1/models/{options.model_name}:predict"
    machine = Machine.now([], 0)
    rows = []
    for count in map(int, options.clients.split(",")):
        with ThreadPoolExecutor(count) as clients:
            own = [bodies[number:] + bodies[:number] for number in range(count)]
            turns = clients.map(latencies, [url] * count, own, [options.seconds] * count)
            taken = sorted(itertools.chain.from_iterable(turns))
        rows.append(
            {
                "clients": count,
                "requests_per_second": round(len(taken) / options.seconds, 1),
                "median_ms": round(1e3 * taken[len(taken) // 2], 1),
                "p95_ms": round(1e3 * taken[int(0.95 * len(taken))], 1),
            }
        )
    report(machine, rows, {})
    return 0


if __name__ == "__main__":
    sys.exit(main())
