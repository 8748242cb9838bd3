"""The devices and workers that train: the strategy, and the few things that workers must agree on.

One device needs no strategy. Several GPUs of one machine are trained on under MirroredStrategy.
Several machines are described to each of them by the environment variable TF_CONFIG (TensorFlow's
format) and trained on under MultiWorkerMirroredStrategy; every worker runs the same command, and
all of them must see the same output directory. The first worker (the chief) alone writes and
evaluates.
"""

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ut_tf.data.pipeline import worker_share
from ut_tf.errors import UserError, counted
from ut_tf.notices import warn

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_LARGEST_PORT = 65535
_SHOWN = 200
# How TensorFlow's lines begin that tell where in a graph an error arose.
_PLACES = ("Graph execution error", "Detected at node", "<stack traces", "File ", " ", "\t")
_NO_GPU = "no GPU found; GPUs need pip install 'tensorflow[and-cuda]'"


@contextlib.contextmanager
def lost_workers_named(workers: "Workers") -> Iterator[None]:
    """Turns TensorFlow's error after the loss of another worker into one sentence.

    Args:
      workers: of which this process is one; alone it loses none, and errors pass.
    """
    try:
        yield
    except _LOST as error:
        if workers.count == 1:
            raise
        raise UserError(
            f"worker {workers.index} of {workers.count} has lost {_lost_worker(workers, error)}"
            f" ({_first_line(error)}): start all of them again with the same command; they go on"
            " from the last checkpoint."
        ) from error


def _lost_worker(workers: "Workers", error: Exception) -> str:
    """Returns the lost worker; of several, the one that TensorFlow names."""
    others = [number for number in range(workers.count) if number != workers.index]
    named = {int(number) for number in re.findall(r"task:(\d{1,9})", str(error))} & {*others}
    found = others if len(others) == 1 else sorted(named)
    return f"worker {found[0]}" if len(found) == 1 else "another worker"


def _first_line(error: Exception) -> str:
    """Returns the first line with the cause, without its place in the graph."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(_PLACES)]
    return (telling or lines or [type(error).__name__])[0].strip()[:_SHOWN]


def make_strategy(num_gpus: int | None = None) -> Any:
    """The tf.distribute strategy for this process.

    With several workers it must be called before TensorFlow has run anything, as TensorFlow
    demands.

    Args:
      num_gpus: GPUs of this machine to train on; 0: the CPU; None: all there are. With several
        workers each uses all that it sees, and a number makes for a warning.

    Raises:
      UserError: there are fewer GPUs than asked for, or TF_CONFIG cannot be read, names no place
        for this process, or comes too late.
    """
    if worker_count() > 1:
        if num_gpus is not None:
            warn(
                f"`num_gpus`={num_gpus} is not used with several workers (TF_CONFIG): each"
                " trains on all GPUs that it sees; choose them by CUDA_VISIBLE_DEVICES."
            )
        return _multi_worker_strategy()
    gpus = tf.config.list_logical_devices("GPU")
    if num_gpus is not None and (num_gpus < 0 or num_gpus > len(gpus)):
        found = counted(len(gpus), "GPU")
        limit = f"ask for 0 to {len(gpus)}" if gpus else "leave it out"
        raise UserError(
            f"`num_gpus`={num_gpus}: TensorFlow finds {found} on this machine; {limit}."
        )
    wanted = gpus if num_gpus is None else gpus[:num_gpus]
    if len(wanted) > 1:
        return tf.distribute.MirroredStrategy([device.name for device in wanted])
    if gpus and not wanted:
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    return tf.distribute.get_strategy()


def describe_devices(strategy: Any) -> str:
    """The devices of `strategy` in words: "2 × NVIDIA H100", or "the CPU" and, where TensorFlow
    finds no GPU, a hint.
    """
    names = Counter(map(_gpu_name, _gpu_indices(strategy)))
    if names:
        devices = " and ".join(f"{count} × {name}" for name, count in names.items())
    else:
        gpus = tf.config.list_physical_devices("GPU")
        devices = "the CPU" if gpus else f"the CPU ({_NO_GPU})"
    workers = Workers.of(strategy).count
    return devices if workers == 1 else f"{workers} workers, the first on {devices}"


def on_accelerator(strategy: Any) -> bool:
    """Whether a GPU or TPU computes under `strategy`."""
    if strategy is tf.distribute.get_strategy():
        return bool(_gpu_indices(strategy))
    devices = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    return any(device.device_type in ("GPU", "TPU") for device in devices)


def _gpu_indices(strategy: Any) -> list[int]:
    if strategy is tf.distribute.get_strategy():
        # The default strategy does not name its device: the first GPU, where there is one.
        return [0] if tf.config.list_logical_devices("GPU") else []
    devices = map(tf.DeviceSpec.from_string, strategy.extended.worker_devices)
    return [device.device_index for device in devices if device.device_type == "GPU"]


def _gpu_name(index: int) -> str:
    gpus = tf.config.list_physical_devices("GPU")
    if index >= len(gpus):  # One GPU was divided into several logical ones.
        return "GPU"
    return str(tf.config.experimental.get_device_details(gpus[index]).get("device_name", "GPU"))


def worker_count() -> int:
    """The number of workers that TF_CONFIG describes; 1 without it.

    Raises:
      UserError: it is not of TensorFlow's format, or its task is none of the workers.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return 1
    try:
        values = json.loads(text)
        workers = {
            job: _addresses(job, values.get("cluster", {}).get(job, []))
            for job in ("chief", "worker")
        }
        count = sum(map(len, workers.values()))
        task = values.get("task", {})
        if count > 1:
            _check_distinct([address for job in workers.values() for address in job])
        is_whole = {"type", "index"} <= set(task)
        if count > 1 or (count == 1 and (is_whole or task.get("type") not in (None, *workers))):
            _check_task(workers, task)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        expected = (
            '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker",'
            ' "index": 0}}'
        )
        raise UserError(f"TF_CONFIG={text}: expected JSON like {expected}: {error}.") from error
    return max(count, 1)


def _addresses(job: str, addresses: Any) -> list[str]:
    if not isinstance(addresses, list) or not all(map(_has_port, addresses)):
        raise ValueError(
            f"{job} is {json.dumps(addresses)}, not a list of addresses with their ports, 1 to"
            f" {_LARGEST_PORT}"
        )
    return addresses


def _has_port(address: Any) -> bool:
    port = address.rpartition(":")[2] if isinstance(address, str) and ":" in address else ""
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(_LARGEST_PORT))
    return is_number and 0 < int(port) <= _LARGEST_PORT


def _check_distinct(addresses: list[str]) -> None:
    for address, count in Counter(addresses).items():
        if count > 1:
            raise ValueError(f"{address} is the address of {count} workers, which would wait")


def _check_task(workers: dict[str, list[str]], task: Any) -> None:
    job, index = task.get("type"), task.get("index")
    if job not in workers or not workers[job]:
        raise ValueError(
            f"the task's type is {json.dumps(job)}, of which the cluster has none that trains"
        )
    last = len(workers[job]) - 1
    # TensorFlow takes "0" for 0, and so do the programs that write this variable.
    if isinstance(index, bool) or not str(index).isdecimal() or int(str(index)) > last:
        raise ValueError(
            f"the task's index is {json.dumps(index)}, and those of {job} are 0 to {last}"
        )


def _multi_worker_strategy() -> Any:
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except ValueError as error:
        raise UserError(
            f"TF_CONFIG={os.environ['TF_CONFIG']}: TensorFlow does not take it: {error}."
        ) from error
    except tf.errors.OpError as error:
        raise UserError(
            f"TF_CONFIG={os.environ['TF_CONFIG']}: this worker cannot listen at its address, or"
            f" does not reach the others ({_first_line(error)}): is the port in use, and do all"
            " workers run?"
        ) from error
    except RuntimeError as error:
        raise UserError(
            "several workers (TF_CONFIG): TensorFlow was used before they were connected; "
            f"call make_strategy first in the program and pass its result on: {error}."
        ) from error


def check_same_precision(workers: "Workers", policy: str) -> None:
    """Raises UserError where some workers train in float32 and others do not: each chooses by its
    own processor. Waits for all of them.
    """
    count = round(workers.total(float(policy == "float32")))
    if 0 < count < workers.count:
        raise UserError(
            f"{count} of {workers.count} workers would train in float32, since their processors"
            " have no bfloat16 products, and the others in bfloat16: give"
            " `hparams`=dtype_policy=float32 to all of them."
        )


@dataclass(frozen=True)
class Workers:
    """This process among those that train together.

    Args:
      strategy: the tf.distribute strategy.
      count: processes.
      index: of this one; 0 is the chief.
    """

    strategy: Any
    count: int
    index: int

    @classmethod
    def of(cls, strategy: Any) -> "Workers":
        """The place of this process under `strategy`; UserError where it is none."""
        if not isinstance(strategy, tf.distribute.Strategy):
            raise UserError(
                f"`strategy`={strategy!r}: expected a tf.distribute.Strategy, such as"
                " tf.distribute.MirroredStrategy()."
            )
        resolver = strategy.cluster_resolver
        if resolver is None or not resolver.cluster_spec():
            return cls(strategy, 1, 0)
        specification = resolver.cluster_spec()
        jobs = [job for job in ("chief", "worker") if job in specification.jobs]
        tasks = [(job, index) for job in jobs for index in range(specification.num_tasks(job))]
        return cls(strategy, len(tasks), tasks.index((resolver.task_type, resolver.task_id)))

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and evaluates."""
        return self.index == 0

    @property
    def replicas(self) -> int:
        """Replicas of all workers together."""
        return int(self.strategy.num_replicas_in_sync)

    def total(self, value: float) -> float:
        """The sum of the workers' values; waits for all of them, so all must call it at the
        same point.
        """
        if self.count == 1:
            return value
        share = self.replicas // self.count
        return float(self._all_reduce(tf.constant(value / share, tf.float64)))

    def gathered(self, values: Sequence[float]) -> list[list[float]]:
        """The whole numbers of every worker, below 2^50, by worker; waits for all of them, so all
        must call it at the same point with as many.
        """
        if self.count == 1:
            return [list(values)]
        rows = np.zeros([self.count, len(values)])
        rows[self.index] = values
        share = self.replicas // self.count
        found = self._all_reduce(tf.constant(rows / share, tf.float64)).numpy()
        return [list(map(float, row)) for row in found.round()]

    def stacked(self, values: Any) -> Any:
        """The tensors of the replicas of all workers, stacked in a first dimension as an array;
        waits for all of them, so all must call it at the same point.

        Args:
          values: of this worker's replicas, of equal shape on all replicas.
        """
        local = self.strategy.experimental_local_results(values)
        ours = np.stack([value.numpy() for value in local])
        if self.count == 1:
            return ours
        share = self.replicas // self.count
        rows = np.zeros([self.replicas, *ours.shape[1:]])
        rows[self.index * share :][:share] = ours.astype(np.float64) / share
        return self._all_reduce(tf.constant(rows)).numpy().astype(ours.dtype)

    def unstacked(self, stacked: Any) -> Any:
        """The values of this worker's replicas of ``stacked``."""
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(stacked[context.replica_id_in_sync_group])
        )

    def share_of(self, dataset: Any) -> Any:
        """This worker's share of a data set in which every global batch is `replicas`
        consecutive elements of equal shape.

        An element of the result has the parts of this worker's replicas stacked in a first
        dimension (left out where there is one replica in all); ``part_of_replica`` takes a
        replica's part. Batches of ids are small: handing all of them to each replica costs less
        than TensorFlow's distributed data sets, which copy ahead to each device with threads of
        their own, and wait for these, sometimes for a minute, when they are dropped before their
        end.
        """
        if self.replicas == 1:
            return dataset
        ours = worker_share(dataset, self.replicas, self.index, self.count)
        return ours.batch(self.replicas // self.count, drop_remainder=True).prefetch(2)

    def part_of_replica(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The part of an element of ``share_of`` that belongs to the replica in whose
        context this is called.
        """
        if self.replicas == 1:
            return batch
        number = tf.distribute.get_replica_context().replica_id_in_sync_group % (
            self.replicas // self.count
        )
        return {name: value[number] for name, value in batch.items()}

    def _all_reduce(self, value: Any) -> Any:
        @tf.function(autograph=False)
        def summed(value: Any) -> Any:
            def replica(value: Any) -> Any:
                # The copy lies on the replica's device, by which the sum finds its way.
                return tf.distribute.get_replica_context().all_reduce(
                    tf.distribute.ReduceOp.SUM, tf.identity(value)
                )

            return self.strategy.experimental_local_results(
                self.strategy.run(replica, args=(value,))
            )[0]

        return summed(value)
