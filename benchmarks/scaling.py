"""Measures what several devices and several workers cost: bytes moved and time lost per update.

    python benchmarks/scaling.py               # 1, 2, 4, 8 logical devices; 1 and 2 workers
    python benchmarks/scaling.py --devices=1,2 --workers= --hparams_set=ut_small
    python benchmarks/scaling.py --model_only  # the model of cost for 8, 64 and 512 GPUs
    python benchmarks/scaling.py --packs=0,0.5,1  # gradients summed in packs of so many megabytes

The same batch is divided by all replicas, so that with the processor's time everything is equal but
for what dividing costs: smaller products, sums over the replicas, copies. Logical devices share one
process and its cores; workers are processes that talk over the loopback interface, and their
sockets count the bytes. The last line printed is JSON.
"""

from __future__ import annotations

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

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from ut_tf.factories import make_hparams  # noqa: E402
from ut_tf.planning.accelerators import accelerator  # noqa: E402
from ut_tf.planning.communication import Network, bytes_per_update, seconds_per_update  # noqa: E402
from ut_tf.planning.operations import BatchShape, update_flop  # noqa: E402
from ut_tf.planning.parameters import count_parameters  # noqa: E402
from ut_tf.planning.sizes import Sizes  # noqa: E402
from ut_tf.problem_spec import ProblemSpec  # noqa: E402

SPEC = ProblemSpec("tokens", "tokens", 2000, 2000, shared_vocab=True)
LENGTH = 25
# Of struct tcp_info: bytes acknowledged and received.
_TCP_INFO_SIZE, _ACKED_RECEIVED = 192, (120, 128)
MODELLED = (1, 8, 64, 512)


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
    from synthetic import Trained

    from ut_tf.training.distribution import make_strategy

    names = [f"/cpu:{number}" for number in range(count)]
    strategy = tf.distribute.MirroredStrategy(names) if count > 1 else make_strategy()
    trained = Trained(make_hparams(flags.hparams_set, flags.hparams), SPEC, strategy)
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


def measure_packs(flags: argparse.Namespace) -> dict[str, Any]:
    """Updates as a worker of TF_CONFIG with gradients in packs of each size, which take turns."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    from synthetic import Trained

    from ut_tf.training.distribution import make_strategy
    from ut_tf.training.step import TrainingStep

    def summed_in_packs(size: int) -> Any:
        options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=size)

        def summed(self: TrainingStep, values: Any) -> Any:
            del self
            context, add = tf.distribute.get_replica_context(), tf.distribute.ReduceOp.SUM
            return context.all_reduce(add, values, options=options)

        return summed

    strategy, batch = make_strategy(), BatchShape(flags.examples // 2, LENGTH, LENGTH)
    sizes, steps, losses = [float(size) for size in flags.packs.split(",")], {}, {}
    for size in sizes:
        # Read while the update is traced, which its first call does.
        TrainingStep._sum_over_replicas = summed_in_packs(int(size * 1e6))  # type: ignore[method-assign]
        steps[size] = Trained(make_hparams(flags.hparams_set, flags.hparams), SPEC, strategy)
        losses[size] = [steps[size].update(batch).loss for _ in range(3)]
    times: dict[float, list[tuple[float, float]]] = {size: [] for size in sizes}
    for _ in range(flags.updates):
        for size, trained in steps.items():
            began, cpu_began = time.perf_counter(), time.process_time()
            trained.update(batch)
            times[size].append((time.perf_counter() - began, time.process_time() - cpu_began))
    medians = {size: np.median(np.array(rows), axis=0) for size, rows in times.items()}
    return {
        str(size): {
            "wall": float(medians[size][0] / medians[sizes[0]][0]),
            "cpu": float(medians[size][1] / medians[sizes[0]][1]),
            "wall_ms": float(1e3 * medians[size][0]),
            "sums": _sums(steps[size].update_graph),
            "equal_losses": losses[size] == losses[sizes[0]],
        }
        for size in sizes
    }


def _sums(graph: Any) -> int:
    """How many sums over the workers an update takes."""
    return sum(
        operation.type.startswith("CollectiveReduce") for operation in graph.get_operations()
    )


def measured(flags: argparse.Namespace, devices: int, workers: int) -> dict[str, float]:
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
    """What each process of a setting measures."""
    ports = _free_ports(workers)
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    processes = []
    for index in range(workers):
        task = {"type": "worker", "index": index}
        described = json.dumps({"cluster": cluster, "task": task})
        config = {"TF_CONFIG": described} if workers > 1 else {}
        command = [
            sys.executable,
            __file__,
            *(f"--{name}={getattr(flags, name)}" for name in _PASSED_ON),
            f"--child_devices={devices}",
            f"--child_workers={workers}",
        ]
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        environment = {**os.environ, **quiet, **config}
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{devices} devices and {workers} workers failed")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


_PASSED_ON = ("hparams_set", "hparams", "examples", "updates", "packs")


def _free_ports(count: int) -> list[int]:
    servers = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [int(server.getsockname()[1]) for server in servers]
    for server in servers:
        server.close()
    return ports


def table(rows: Sequence[dict[str, float]]) -> str:
    """The settings as a Markdown table; times are also given over those of the first."""
    first = rows[0]
    lines = [
        "| workers | devices each | processor ms | lost | wall ms | sent per update |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        gradients = 4 * row["parameters"]
        sent = f"{row['bytes'] / 1e6:.2f} MB ({row['bytes'] / gradients:.2f} x the gradients)"
        cells = [
            f"{row['workers']:.0f}",
            f"{row['devices']:.0f}",
            f"{row['cpu_ms']:.0f}",
            f"{row['cpu_ms'] / first['cpu_ms'] - 1:+.0%}",
            f"{row['wall_ms']:.0f}",
            sent if row["workers"] > 1 else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def modelled(flags: argparse.Namespace) -> list[dict[str, float]]:
    """Seconds of an update, and what is lost in it, on 1, 8, 64 and 512 GPUs."""
    hparams = make_hparams(flags.modelled_set)
    spec = ProblemSpec("tokens", "tokens", 33_000, 33_000, shared_vocab=True)
    sizes = Sizes.of(hparams.model, hparams.network, spec)
    batch = BatchShape(max(1, hparams.training.batch_size // 30), 30, 30)
    gpu, parameters = accelerator(flags.gpu), count_parameters(sizes)
    products = update_flop(sizes, batch) / (flags.utilisation * gpu.peak("mixed_bfloat16"))
    rows = []
    for devices in MODELLED:
        sums = seconds_per_update(parameters, devices, Network())
        positions = devices * batch.examples * batch.target_length
        rows.append(
            {
                "gpus": devices,
                "gigabytes": bytes_per_update(parameters, devices) / 1e9,
                "products_ms": 1e3 * products,
                "sums_ms": 1e3 * sums,
                "efficiency": products / (products + sums),
                "positions_per_second": positions / (products + sums),
                "dollars_per_billion": 1e9
                * devices
                * (gpu.price or 0.0)
                * (products + sums)
                / 3600
                / positions,
            }
        )
    return rows


def modelled_table(rows: Sequence[dict[str, float]]) -> str:
    """The model of cost as a Markdown table."""
    lines = [
        "| GPUs | sent by each | products | sums | efficiency | positions/s | $ for 10⁹ of them |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['gpus']} | {row['gigabytes']:.3f} GB | {row['products_ms']:.1f} ms |"
            f" {row['sums_ms']:.1f} ms | {row['efficiency']:.0%} |"
            f" {row['positions_per_second']:,.0f} | {row['dollars_per_billion']:.2f} |"
        )
    return "\n".join(lines)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags' values."""
    parser = argparse.ArgumentParser(description="Measures what several devices cost.")
    parser.add_argument("--hparams_set", default="ut_tiny", help="default: %(default)s")
    parser.add_argument("--hparams", default="num_steps=2", help="default: %(default)s")
    parser.add_argument("--examples", type=int, default=32, help="of a batch, by all replicas")
    parser.add_argument("--updates", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--devices", default="1,2,4,8", help="logical (default: %(default)s)")
    parser.add_argument("--workers", default="2", help="default: %(default)s")
    parser.add_argument("--packs", default="", help="megabytes, of two workers; 0: all in one")
    parser.add_argument("--model_only", action="store_true", help="nothing is measured")
    parser.add_argument("--modelled_set", default="ut_base", help="default: %(default)s")
    parser.add_argument("--gpu", default="H100", help="of the model (default: %(default)s)")
    parser.add_argument("--utilisation", type=float, default=0.25, help="default: %(default)s")
    parser.add_argument("--child_devices", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child_workers", type=int, default=1, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    flags = parse(argv)
    if flags.child_devices:
        print(json.dumps(measure_packs(flags) if flags.packs else measure(flags)))
        return 0
    if flags.packs:
        print(json.dumps({"packs": in_processes(flags, 1, 2)[0], "load": os.getloadavg()[0]}))
        return 0
    settings = [(int(count), 1) for count in flags.devices.split(",") if count]
    settings += [(1, int(count)) for count in flags.workers.split(",") if count]
    rows: list[dict[str, Any]] = []
    if not flags.model_only:
        for devices, workers in settings:
            rows.append(measured(flags, devices, workers))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        print(table(rows), end="\n\n")
    model = modelled(flags)
    print(modelled_table(model))
    print(json.dumps({"measured": rows, "model": model, "load": os.getloadavg()[0]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
