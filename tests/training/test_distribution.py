"""What is said of a TF_CONFIG that describes no place for this process."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.training.toy import ToyCopy, toy_run
from ut_tf.errors import UserError
from ut_tf.training import agreement, distribution, threads
from ut_tf.training.agreement import Facts, check_agreement, data_digest, facts_of
from ut_tf.training.cluster import expand_nodes, join_cluster, slurm_workers
from ut_tf.training.distribution import (
    Workers,
    check_same_precision,
    describe_devices,
    make_strategy,
    on_accelerator,
    worker_count,
)

TWO = {"worker": ["a:1", "b:2"]}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"cluster": {"worker": "a:1,b:2"}}, "not a list of addresses"),
        ([], "expected JSON like"),
        ({"cluster": TWO}, "the task's type is null"),
        ({"cluster": TWO, "task": {"type": "chief", "index": 0}}, 'the task\'s type is "chief"'),
        (
            {"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "ps", "index": 0}},
            'the task\'s type is "ps"',
        ),
        ({"cluster": TWO, "task": {"type": "worker", "index": 2}}, "those of worker are 0 to 1"),
        ({"cluster": {"worker": ["a:1", "a:1"]}}, "a:1 is the address of 2 workers"),
        ({"cluster": {"worker": ["a:1", "b:x"]}}, "not a list of addresses"),
    ],
)
def test_faults_are_named(monkeypatch: pytest.MonkeyPatch, found: Any, expected: str) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(found))
    with pytest.raises(UserError, match=expected):
        worker_count()


def test_workers_of_different_precision_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    policies = ["float32", "mixed_bfloat16"]
    monkeypatch.setattr(Workers, "total", lambda _, __: float(policies.count("float32")))
    workers = Workers(None, count=2, index=0)
    with pytest.raises(UserError, match=r"1 of 2 workers .* give `hparams`=dtype_policy=float32"):
        check_same_precision(workers, policies[0])
    for policies in (["float32"] * 2, ["mixed_bfloat16"] * 2):
        check_same_precision(workers, policies[0])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_workers_that_differ_are_refused_by_their_number(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    facts = Facts("ut_tf 1", "settings", "digest")
    others = Facts(*("other" if place == number else fact for number, fact in enumerate(facts)))
    first = [agreement._number(fact) for fact in facts]
    monkeypatch.setattr(Workers, "gathered", lambda _, values: [first, values])
    workers = Workers(None, count=2, index=1)
    check_agreement(workers, facts)
    with pytest.raises(UserError, match=r"^worker 1 of 2 is not like worker 0, it (has|trains)"):
        check_agreement(workers, others)


def test_all_settings_but_the_precision_must_agree(tmp_path: Path) -> None:
    settings = facts_of(toy_run(tmp_path), 20).settings
    assert settings == facts_of(toy_run(tmp_path, dtype_policy="mixed_bfloat16"), 20).settings
    for other in (toy_run(tmp_path, seed=2), toy_run(tmp_path, eval_frequency=7)):
        assert settings != facts_of(other, 20).settings
    assert settings != facts_of(toy_run(tmp_path), 21).settings


def test_digests_tell_data_of_equal_shapes_apart(tmp_path: Path) -> None:
    first, second = (data_digest(ToyCopy(), tmp_path, seed) for seed in (1, 2))
    assert first != second
    assert first == data_digest(ToyCopy(), tmp_path, 1)


class Lost:
    """Three workers, of which this process is the first."""

    count, index = 3, 0


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("Connection reset by peer\n/job:worker/replica:0/task:2", "has lost worker 2 (Conn"),
        ("Socket closed", "has lost another worker (Socket closed)"),
        (
            "Graph execution error:\n\nDetected at node while defined at (most recent call last):\n"
            "<stack traces unavailable>\nTask task:1 is gone\n\t [[{{node while}}]]",
            "has lost worker 1 (Task task:1 is gone)",
        ),
    ],
)
def test_a_lost_worker_is_named_in_one_sentence(message: str, named: str) -> None:
    with pytest.raises(UserError) as caught, distribution.lost_workers_named(Lost()):  # type: ignore[arg-type]
        raise tf.errors.UnavailableError(None, None, message)
    assert str(caught.value).startswith("worker 0 of 3 ")
    assert named in str(caught.value)
    assert "same command" in str(caught.value)


def test_a_single_worker_loses_none() -> None:
    alone = distribution.Workers(None, 1, 0)
    with pytest.raises(tf.errors.AbortedError), distribution.lost_workers_named(alone):
        raise tf.errors.AbortedError(None, None, "no other")


def test_an_address_in_use_is_the_user_s_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")

    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": TWO}))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", refuse)
    with pytest.raises(UserError, match="Could not start gRPC server"):
        distribution._multi_worker_strategy()


@pytest.mark.parametrize("index", [1, "1"])
def test_workers_are_counted(monkeypatch: pytest.MonkeyPatch, index: Any) -> None:
    cluster = {"chief": ["c:1"], **TWO}
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
    )
    assert worker_count() == 3


def test_num_gpus_that_is_not_used_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": TWO, "task": {"type": "worker", "index": 0}})
    )
    monkeypatch.setattr(distribution, "_multi_worker_strategy", lambda: "workers")
    assert make_strategy(1) == "workers"
    assert "`num_gpus`=1 is not used" in capsys.readouterr().err


@pytest.mark.parametrize("num_gpus", [None, 0])
def test_without_a_gpu_it_is_said_what_gpus_need(num_gpus: int | None) -> None:
    described = describe_devices(make_strategy(num_gpus))
    assert described == "the CPU (no GPU found; GPUs need pip install 'tensorflow[and-cuda]')"


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ([0], "1 × NVIDIA H100"),
        ([0, 1], "2 × NVIDIA H100"),
        ([1, 2], "1 × NVIDIA H100 and 1 × NVIDIA A100"),
    ],
)
def test_gpus_are_counted_by_name(
    monkeypatch: pytest.MonkeyPatch, used: list[int], expected: str
) -> None:
    _pretend_gpus(monkeypatch, ["NVIDIA H100", "NVIDIA H100", "NVIDIA A100"])
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    devices = tuple(f"/job:localhost/replica:0/task:0/device:GPU:{index}" for index in used)
    monkeypatch.setattr(type(strategy.extended), "worker_devices", devices)
    assert describe_devices(strategy) == expected


def test_the_default_strategy_uses_the_first_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_gpus(monkeypatch, ["NVIDIA H100"])
    assert describe_devices(tf.distribute.get_strategy()) == "1 × NVIDIA H100"
    assert on_accelerator(tf.distribute.get_strategy())


def test_a_cpu_that_was_asked_for_is_no_lack_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend_gpus(monkeypatch, ["NVIDIA H100"])
    assert describe_devices(make_strategy(0)) == "the CPU"
    assert not on_accelerator(make_strategy(0))


def _pretend_gpus(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    listed = list(range(len(names)))
    for kind in ("physical", "logical"):
        monkeypatch.setattr(tf.config, f"list_{kind}_devices", lambda _: listed)
    details = lambda gpu: {"device_name": names[gpu]}  # noqa: E731
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The counts that TensorFlow is given, on two cores."""
    given: dict[str, int] = {}
    for kind in ("intra", "inter"):
        name = f"set_{kind}_op_parallelism_threads"
        record = lambda count, kind=kind: given.__setitem__(kind, count)  # noqa: E731
        monkeypatch.setattr(tf.config.threading, name, record)
        monkeypatch.delenv(f"TF_NUM_{kind.upper()}OP_THREADS", raising=False)
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    return given


def test_few_cores_run_operations_side_by_side_and_many_share_each(
    counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads.set_threads()
    assert counts == {"intra": 1, "inter": 2}
    counts.clear()
    monkeypatch.setattr(threads, "usable_cores", lambda: 16)
    threads.set_threads()
    assert counts == {}


def test_what_the_user_sets_goes_before_the_default(
    counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads.set_threads(0, 5)
    assert counts == {"inter": 5}
    counts.clear()
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    threads.set_threads()
    assert counts == {"inter": 2}


def test_a_default_leaves_a_tensorflow_that_computes_alone(
    counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(count: int) -> None:
        raise RuntimeError(f"{count}: cannot be modified after initialization")

    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", refuse)
    threads.set_threads()
    assert counts == {"inter": 2}
    with pytest.raises(RuntimeError, match="3: cannot"):
        threads.set_threads(3)


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


def test_a_name_is_no_strategy() -> None:
    with pytest.raises(UserError, match="`strategy`='mirrored': expected a tf"):
        Workers.of("mirrored")
