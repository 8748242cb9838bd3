"""TF_CONFIG from what srun says, without SLURM."""

from __future__ import annotations

import itertools
import json

import pytest

from ut_tf.errors import UserError
from ut_tf.training.cluster import expand_nodes, join_cluster, slurm_workers

# As srun -N2 -n3 sets them in the task of rank 2, on the second node.
STEP = {
    "SLURM_JOB_ID": "71",
    "SLURM_STEP_NODELIST": "gpu[09-10]",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_PROCID": "2",
    "SLURM_NODEID": "1",
}
PORT = 10_000 + 71 * 64


def silent(text: str) -> None:
    del text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("login", ["login"]),
        ("gpu[09-11,3],login", ["gpu09", "gpu10", "gpu11", "gpu3", "login"]),
        ("r[1-2]n[01-02].local", ["r1n01.local", "r1n02.local", "r2n01.local", "r2n02.local"]),
    ],
)
def test_compressed_names_of_nodes(text: str, names: list[str]) -> None:
    assert expand_nodes(text) == names


@pytest.mark.parametrize("text", ["gpu[1-2", "gpu1-2]", "gpu[a-b]", "gpu[1,]", "a,,b", "gpu[[1]]"])
def test_names_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError, match="expected names such as"):
        expand_nodes(text)


def test_srun_makes_a_cluster() -> None:
    environment, said = dict(STEP), []
    join_cluster("auto", said.append, environment)
    assert json.loads(environment["TF_CONFIG"]) == {
        "cluster": {"worker": [f"gpu09:{PORT}", f"gpu09:{PORT + 1}", f"gpu10:{PORT}"]},
        "task": {"type": "worker", "index": 2},
    }
    assert said == [f"worker 2 of 3 by SLURM, at gpu10:{PORT}"]


def test_steps_and_jobs_of_a_node_have_ports_of_their_own() -> None:
    ports: set[str] = set()
    for job, step in itertools.product(range(71, 91), range(4)):
        numbers = {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}
        ports.update(slurm_workers({**STEP, **numbers})[0])
    assert len(ports) == 20 * 4 * 3


def test_tasks_in_turn() -> None:
    environment = {**STEP, "SLURM_DISTRIBUTION": "cyclic", "SLURM_PROCID": "1"}
    join_cluster("slurm", silent, environment)
    workers = json.loads(environment["TF_CONFIG"])["cluster"]["worker"]
    assert workers == [f"gpu09:{PORT}", f"gpu10:{PORT}", f"gpu09:{PORT + 1}"]


@pytest.mark.parametrize(
    ("cluster", "changes"),
    [
        ("auto", {"TF_CONFIG": "{}"}),
        ("auto", {"SLURM_STEP_NUM_TASKS": "1"}),
        # A batch script's own variables, without srun.
        ("auto", {"SLURM_STEP_NUM_TASKS": "", "SLURM_NTASKS": "3"}),
        ("tf_config", {}),
    ],
)
def test_what_is_there_stays(cluster: str, changes: dict[str, str]) -> None:
    environment = {**STEP, **changes}
    join_cluster(cluster, silent, environment)
    assert environment.get("TF_CONFIG") == changes.get("TF_CONFIG")


def test_a_process_may_train_alone() -> None:
    environment = {**STEP, "TF_CONFIG": "{}"}
    join_cluster("none", silent, environment)
    assert "TF_CONFIG" not in environment


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"SLURM_PROCID": ""}, "SLURM_PROCID is not set: start the command with srun"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, "tells of 2 with 4 tasks"),
        ({"SLURM_NODEID": "0"}, "srun --distribution=block"),
        ({"SLURM_JOB_ID": "x"}, "SLURM_JOB_ID=x: expected a whole number"),
    ],
)
def test_variables_that_do_not_agree(changes: dict[str, str], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        join_cluster("slurm", silent, {**STEP, **changes})


def test_unknown_clusters_are_named() -> None:
    with pytest.raises(UserError, match="`cluster`=k8s: expected one of auto"):
        join_cluster("k8s", silent, {})
