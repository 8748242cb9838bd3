"""Measures what several devices and several workers cost: bytes moved and time lost per update.

    python benchmarks/scaling.py               # 1, 2, 4, 8 logical devices; 1 and 2 workers
    python benchmarks/scaling.py --devices=1,2 --workers= --hparams_set=ut_small

The same batch is divided by all replicas, so that with the processor's time everything is equal but
for what dividing costs: smaller products, sums over the replicas, copies. Logical devices share one
process and its cores; workers are processes that talk over the loopback interface, and their
sockets count the bytes. The last line printed is JSON.
"""

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "faults")]

from measuring import Machine, report  # noqa: E402
from processes import cluster_environments  # noqa: E402

from ut_tf.factories import make_hparams  # noqa: E402
from ut_tf.problem_spec import ProblemSpec  # noqa: E402
from ut_tf.training.plan import BatchShape  # noqa: E402

SPEC = ProblemSpec("tokens", "tokens", 2000, 2000, shared_vocab=True)
LENGTH = 25
# Of struct tcp_info: bytes acknowledged and received.
_TCP_INFO_SIZE, _ACKED_RECEIVED = 192, (120, 128)


def socket_bytes() -> int:
    """The bytes that this process' TCP connections have sent and received so far."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
        except OSError:
            continue  # Closed meanwhile, or no TCP.
        total += sum(struct.unpack_from("<Q", info, place)[0] for place in _ACKED_RECEIVED)
    return total


def measure(flags: argparse.Namespace) -> dict[str, float]:
    """Trains in this process: on --child_devices logical devices, or as a worker of TF_CONFIG."""
    import tensorflow as tf

    count, cores = flags.child_devices, max(1, (os.cpu_count() or 1) // flags.child_workers)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        processor, [tf.config.LogicalDeviceConfiguration()] * count
    )
    from ut_tf.training.distribution import make_strategy
    from ut_tf.training.plan import RandomTraining

    names = [f"/cpu:{number}" for number in range(count)]
    strategy = tf.distribute.MirroredStrategy(names) if count > 1 else make_strategy()
    trained = RandomTraining(make_hparams(flags.hparams_set, flags.hparams), SPEC, strategy)
    replicas = count * flags.child_workers
    batch = BatchShape(max(1, flags.examples // replicas), LENGTH, LENGTH)
    for _ in range(2):
        trained.update(batch)
    moved, began, cpu_began = socket_bytes(), time.perf_counter(), time.process_time()
    for _ in range(flags.updates):
        trained.update(batch)
    return {
        "wall_ms": 1e3 * (time.perf_counter() - began) / flags.updates,
        "cpu_ms": 1e3 * (time.process_time() - cpu_began) / flags.updates,
        "bytes": (socket_bytes() - moved) / flags.updates,
        "parameters": int(trained.model.count_params()),
    }


def measure_processes(flags: argparse.Namespace, devices: int, workers: int) -> dict[str, float]:
    """The sums over all processes of a setting (of wall time the longest)."""
    values = in_processes(flags, devices, workers)
    return {
        "devices": devices,
        "workers": workers,
        "wall_ms": max(value["wall_ms"] for value in values),
        "cpu_ms": sum(value["cpu_ms"] for value in values),
        "bytes": sum(value["bytes"] for value in values) / 2,  # Counted at both ends.
        "parameters": values[0]["parameters"],
    }


def in_processes(flags: argparse.Namespace, devices: int, workers: int) -> list[dict[str, Any]]:
    """The measurements of each process of a setting."""
    command = [
        sys.executable,
        __file__,
        *(f"--{name}={getattr(flags, name)}" for name in _PASSED_ON),
        f"--child_devices={devices}",
        f"--child_workers={workers}",
    ]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    processes = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, **quiet, **config}
        )
        for config in cluster_environments(workers)
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{devices} devices and {workers} workers failed")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


_PASSED_ON = ("hparams_set", "hparams", "examples", "updates")


def row_of(row: dict[str, float], first: dict[str, float]) -> dict[str, Any]:
    """A setting; its processor time also over that of the first."""
    gradients = 4 * row["parameters"]
    return {
        "workers": row["workers"],
        "devices_each": row["devices"],
        "cpu_ms": round(row["cpu_ms"]),
        "lost": f"{row['cpu_ms'] / first['cpu_ms'] - 1:+.0%}",
        "wall_ms": round(row["wall_ms"]),
        "sent_mb": round(row["bytes"] / 1e6, 2) if row["workers"] > 1 else None,
        "sent_gradients": round(row["bytes"] / gradients, 2) if row["workers"] > 1 else None,
    }


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags' values."""
    parser = argparse.ArgumentParser(description="Measures what several devices cost.")
    parser.add_argument("--hparams_set", default="ut_tiny", help="default: %(default)s")
    parser.add_argument("--hparams", default="num_steps=2", help="default: %(default)s")
    parser.add_argument("--examples", type=int, default=32, help="of a batch, by all replicas")
    parser.add_argument("--updates", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--devices", default="1,2,4,8", help="logical (default: %(default)s)")
    parser.add_argument("--workers", default="2", help="default: %(default)s")
    parser.add_argument("--child_devices", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child_workers", type=int, default=1, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    flags = parse(argv)
    if flags.child_devices:
        print(json.dumps(measure(flags)))
        return 0
    settings = [(int(count), 1) for count in flags.devices.split(",") if count]
    settings += [(1, int(count)) for count in flags.workers.split(",") if count]
    rows = []
    for devices, workers in settings:
        rows.append(measure_processes(flags, devices, workers))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    report(Machine.now([], 0), [row_of(row, rows[0]) for row in rows], {"measured": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
