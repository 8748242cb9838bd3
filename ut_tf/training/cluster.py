"""The workers that train together, from a scheduler's environment variables.

TensorFlow reads TF_CONFIG alone. Under SLURM (``srun``) every process is told the nodes of its
step, how many tasks run on each and its own number; that is enough to write TF_CONFIG, the same
cluster in every process::

    join_cluster("auto", print)   # writes TF_CONFIG where srun started several tasks

The port of a task follows from the numbers of the job and of its step, so that those on one node do
not meet, and its place on its node. Nothing here needs TensorFlow.
"""

import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, MutableMapping

from ut_tf.errors import UserError

CLUSTERS = ("auto", "tf_config", "slurm", "none")
_FIRST_PORT, _PORTS_OF_STEP, _STEPS = 10_000, 64, 312
# The steps of a job lie far from those of the jobs that were queued next to it.
_STRIDE = 193
_NEEDED = (
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_PROCID",
)


def join_cluster(
    cluster: str, say: Callable[[str], None], environment: MutableMapping[str, str] = os.environ
) -> None:
    """Sets TF_CONFIG for this process.

    Args:
      cluster: "tf_config": it is set already, or there is one process; "slurm": made from SLURM's
        variables; "auto": the one that is there, TF_CONFIG first; "none": this process trains
        alone.
      say: called with a line where TF_CONFIG is made.
      environment: read and changed.

    Raises:
      UserError: there is no such cluster, or SLURM's variables are missing or do not agree.
    """
    if cluster not in CLUSTERS:
        raise UserError(f"`cluster`={cluster}: expected one of {', '.join(CLUSTERS)}.")
    if cluster == "none":
        environment.pop("TF_CONFIG", None)
        return
    several = int(_number(environment, "SLURM_STEP_NUM_TASKS")) > 1
    is_given = bool(environment.get("TF_CONFIG")) or not several
    if cluster == "tf_config" or (cluster == "auto" and is_given):
        return
    if missing := [name for name in _NEEDED if not environment.get(name)]:
        raise UserError(
            f"`cluster`=slurm: {', '.join(missing)} is not set: start the command with srun."
        )
    workers, index = slurm_workers(environment)
    task = {"type": "worker", "index": index}
    environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    say(f"worker {index} of {len(workers)} by SLURM, at {workers[index]}")


def slurm_workers(environment: Mapping[str, str]) -> tuple[list[str], int]:
    """The addresses of all tasks of a step, "node:port", and the number of this one.

    Raises:
      UserError: the variables cannot be read, or do not agree with each other.
    """
    nodes = expand_nodes(environment["SLURM_STEP_NODELIST"])
    counts = _tasks_per_node(environment["SLURM_STEP_TASKS_PER_NODE"])
    tasks = int(_number(environment, "SLURM_STEP_NUM_TASKS"))
    if len(nodes) != len(counts) or sum(counts) != tasks:
        raise UserError(
            f"SLURM_STEP_NODELIST={environment['SLURM_STEP_NODELIST']} has {len(nodes)} nodes,"
            f" SLURM_STEP_TASKS_PER_NODE={environment['SLURM_STEP_TASKS_PER_NODE']} tells of"
            f" {len(counts)} with {sum(counts)} tasks, and SLURM_STEP_NUM_TASKS={tasks}: start the"
            " command with srun, with as many tasks on each node."
        )
    # Node by node, the distribution "block".
    places = [(node, local) for node, count in enumerate(counts) for local in range(count)]
    index = int(_number(environment, "SLURM_PROCID"))
    own_node = environment.get("SLURM_NODEID")
    if index >= tasks or (own_node and places[index][0] != int(own_node)):
        raise UserError(
            f"SLURM_PROCID={index} is expected on node {places[min(index, tasks - 1)][0]} of"
            f" {len(nodes)}, and SLURM_NODEID={own_node}: start the command with srun"
            " --distribution=block."
        )
    job = int(_number(environment, "SLURM_JOB_ID"))
    step = int(_number(environment, "SLURM_STEP_ID"))
    first = _FIRST_PORT + (job + step * _STRIDE) % _STEPS * _PORTS_OF_STEP
    return [f"{nodes[node]}:{first + local}" for node, local in places], index


def expand_nodes(text: str) -> list[str]:
    """The names in SLURM's compressed list, "gpu[01-03,7],login": gpu01, gpu02, gpu03, gpu7, login.

    Raises:
      UserError: it cannot be read.
    """
    if not re.fullmatch(f"{_NODES}(,{_NODES})*", text):
        raise UserError(f"SLURM_STEP_NODELIST={text}: expected names such as gpu[01-03],login")
    return [
        "".join(parts)
        for nodes in re.findall(_NODES, text)
        for parts in itertools.product(*map(_choices, re.findall(rf"{_NUMBERS}|[^\[]+", nodes)))
    ]


_NUMBERS = r"\[\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\]"
_NODES = rf"(?:[^,\[\]]|{_NUMBERS})+"


def _choices(part: str) -> list[str]:
    """The numbers in "[01-03,7]": 01, 02, 03, 7; another part of a name is itself."""
    if not part.startswith("["):
        return [part]
    bounds = [item.partition("-")[::2] for item in part[1:-1].split(",")]
    # Leading zeros are part of a name.
    return [
        str(number).zfill(len(first))
        for first, last in bounds
        for number in range(int(first), int(last or first) + 1)
    ]


def _tasks_per_node(text: str) -> list[int]:
    """The numbers in "2(x3),1": 2, 2, 2, 1."""
    counts: list[int] = []
    for item in text.split(","):
        repeated = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", item)
        if repeated is None:
            raise UserError(f"SLURM_STEP_TASKS_PER_NODE={text}: expected numbers such as 2(x3),1.")
        counts += [int(repeated[1])] * int(repeated[2] or 1)
    return counts


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name) or "0"
    if not text.isdecimal():
        raise UserError(f"{name}={text}: expected a whole number, as srun sets it.")
    return int(text)
