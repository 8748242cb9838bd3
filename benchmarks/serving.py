"""Measures the throughput and latency of ut-serve for several clients, with and without joining
their requests into batches.

How it is used::

    python benchmarks/serving.py --export_dir=export/ende --examples=examples.jsonl
    python benchmarks/serving.py --export_dir=export/ende --examples=examples.jsonl --clients=64

A line of examples.jsonl is {"inputs": "Two dogs run."}. Each client sends one example after the
other, each in a request of its own, over one connection.
Settings are batch size x threads (--max_batch_size, --num_batch_threads); each has a server of its
own, all are loaded at once and take turns; the medians of the turns count. The last line on
standard output is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from measuring import Machine, report  # noqa: E402

MODEL = "measured"


@contextlib.contextmanager
def server(export_dir: str, batch_size: int, threads: int) -> Iterator[tuple[str, int]]:
    """The host and port of a server."""
    command = [sys.executable, "-m", "ut_tf.bin.serve", f"--export_dir={export_dir}", "--port=0"]
    sizes = [f"--max_batch_size={batch_size}", f"--num_batch_threads={threads}"]
    # Nobody reads it: a full pipe would stop the server.
    command += [*sizes, f"--model_name={MODEL}", "--noaccess_log"]
    with subprocess.Popen(
        [*command, *sizes, f"--model_name={MODEL}", "--noaccess_log"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            _, scheme, address = line.partition("http://")
            if not scheme:
                raise SystemExit(line)
            host, _, port = address.split()[0].rpartition(":")
            yield host, int(port)
        finally:
            process.terminate()


def latencies(
    address: tuple[str, int], bodies: Sequence[bytes], clients: int, seconds: float
) -> list[float]:
    """Seconds of each answer that arrived within a time."""
    taken: list[float] = []
    refused: list[int] = []
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection(*address)
        own = itertools.islice(itertools.cycle(bodies), number, None, clients)
        for body in own:
            start = time.monotonic()
            connection.request("POST", f"/v1/models/{MODEL}:predict", body)
            reply = connection.getresponse()
            reply.read()
            if reply.status != 200:
                refused.append(reply.status)
                break
            now = time.monotonic()
            if now > end:
                break
            taken.append(now - start)
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if refused:
        raise SystemExit(f"status {refused[0]}: expected 200")
    return taken


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--export_dir", required=True)
    parser.add_argument("--examples", required=True, help="an example a line, as a JSON object")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--settings", default="1x1,1x2,32x1")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args(argv)

    examples = Path(options.examples).read_text(encoding="utf-8").splitlines()
    bodies = [f'{{"instances": [{example}]}}'.encode() for example in examples]
    counts = [int(count) for count in options.clients.split(",")]
    settings = options.settings.split(",")
    measured: dict[tuple[str, int], list[list[float]]] = {}
    machine = Machine.now([], 0)
    with contextlib.ExitStack() as stack:
        addresses = {
            setting: stack.enter_context(server(options.export_dir, *map(int, setting.split("x"))))
            for setting in settings
        }
        for _ in range(options.turns):
            for count, setting in itertools.product(counts, settings):
                taken = latencies(addresses[setting], bodies, count, options.seconds)
                measured.setdefault((setting, count), []).append(sorted(taken))
    rows = [
        {
            "setting": setting,
            "clients": count,
            "requests_per_second": round(
                statistics.median(len(turn) / options.seconds for turn in turns), 1
            ),
            "median_ms": round(1e3 * statistics.median(turn[len(turn) // 2] for turn in turns), 1),
            "p95_ms": round(
                1e3 * statistics.median(turn[int(0.95 * len(turn))] for turn in turns), 1
            ),
        }
        for (setting, count), turns in measured.items()
    ]
    report(machine, rows, {})
    return 0


if __name__ == "__main__":
    sys.exit(main())
