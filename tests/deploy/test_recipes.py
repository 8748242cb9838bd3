"""The recipes of deploy/: they parse, name flags that exist, and start and restart workers.

srun, ssh and ut-trainer are stubs that note what they were called with.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ut_tf.bin import sweep, trainer_flags
from ut_tf.storage.layout import checkpoint_steps
from ut_tf.training.distribution import worker_count

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).parents[2] / "deploy"
SCRIPTS = sorted([*DEPLOY.glob("*.sh"), *DEPLOY.glob("*.sbatch")])
FLAGS = {"ut-trainer": trainer_flags.FLAGS, "ut-sweep": sweep.FLAGS}
# Appends its TF_CONFIG and arguments to $NOTES; fails as often as $FAILURES has lines.
TRAINER = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["NOTES"], "a") as notes:
    notes.write(json.dumps([os.environ.get("TF_CONFIG"), sys.argv[1:]]) + "\\n")
failures = os.environ["FAILURES"]
left = open(failures).readlines() if os.path.exists(failures) else []
open(failures, "w").writelines(left[1:])
sys.exit(int(left[0]) if left else 0)
"""
STUBS = {
    "ut-trainer": TRAINER,
    "ut-sweep": TRAINER,
    # srun FLAGS COMMAND
    "srun": '#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n',
    # ssh -tt HOST COMMAND
    "ssh": '#!/bin/bash\nexec bash -c "$3"\n',
    "scontrol": '#!/bin/bash\necho "$@" >>"$NOTES.scontrol"\n',
}


def run(
    command: list[str], folder: Path, failures: str = "", **variables: str
) -> tuple[int, list[Any]]:
    """Runs a recipe among the stubs; returns its status and what each ut-trainer noted."""
    binaries = folder / "bin"
    binaries.mkdir()
    for name, text in STUBS.items():
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    (folder / "failures").write_text(failures)
    environment = {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "NOTES": str(folder / "notes"),
        "FAILURES": str(folder / "failures"),
        "PAUSE": "0",
        **variables,
    }
    environment.pop("TF_CONFIG", None)
    done = subprocess.run(command, env=environment, timeout=60, check=False)
    noted = (folder / "notes").read_text().splitlines()
    return done.returncode, [json.loads(line) for line in noted]


def counted_workers(config: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("TF_CONFIG", config)
    return worker_count()


def jobset() -> Mapping[str, Any]:
    values: Mapping[str, Any] = yaml.safe_load((DEPLOY / "jobset.yaml").read_text())
    return values


def pod() -> Mapping[str, Any]:
    template = jobset()["spec"]["replicatedJobs"][0]["template"]["spec"]
    values: Mapping[str, Any] = template["template"]["spec"]["containers"][0]
    return values


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_sound(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    checker = shutil.which("shellcheck")
    if checker is not None:
        done = subprocess.run([checker, "--shell=bash", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("recipe", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_flags_exist(recipe: Path) -> None:
    text = recipe.read_text().replace("\\\n", " ")
    for line in text.splitlines():
        for command, flags in FLAGS.items():
            known = {name for flag in flags for name in (flag.name, *flag.aliases)}
            _, called, rest = line.partition(f"{command} ")
            named = (
                set(re.findall(r"--(\w+)(?=[= ]|$)", rest.split(" -- ")[0])) if called else set()
            )
            assert named <= known, line


def test_ssh_starts_a_worker_on_each_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--problem=babi_sim", "--problem_args=a=it's one"]
    status, notes = run([str(DEPLOY / "ssh.sh"), *flags], tmp_path, HOSTS="a b c")
    assert status == 0
    configs = sorted((json.loads(config) for config, _ in notes), key=lambda c: c["task"]["index"])
    assert [config["task"]["index"] for config in configs] == [0, 1, 2]
    assert configs[0]["cluster"]["worker"] == ["a:2222", "b:2222", "c:2222"]
    assert all(arguments == ["--cluster=tf_config", *flags] for _, arguments in notes)
    assert counted_workers(notes[0][0], monkeypatch) == 3


def test_ssh_starts_all_again_if_one_fails(tmp_path: Path) -> None:
    status, notes = run([str(DEPLOY / "ssh.sh"), "--problem=x"], tmp_path, "1\n", HOSTS="a")
    assert (status, len(notes)) == (0, 2)


@pytest.mark.parametrize(
    ("failures", "status", "starts"), [("", 0, 1), ("1\n1\n", 0, 3), ("2\n", 2, 1), ("130\n", 0, 1)]
)
def test_slurm_starts_again_what_may_succeed(
    tmp_path: Path, failures: str, status: int, starts: int
) -> None:
    command = ["bash", str(DEPLOY / "slurm.sbatch"), "--problem=x"]
    found, notes = run(command, tmp_path, failures, SLURM_JOB_ID="7")
    assert (found, len(notes)) == (status, starts)
    assert notes[0][1] == ["--cluster=slurm", "--problem=x"]
    requeued = tmp_path / "notes.scontrol"
    assert requeued.exists() == (failures == "130\n")
    if requeued.exists():
        assert requeued.read_text() == "requeue 7\n"


@pytest.mark.parametrize("failures", ["", "130\n"])
def test_an_array_s_task_does_its_share_and_queues_again_in_time(
    tmp_path: Path, failures: str
) -> None:
    command = ["bash", str(DEPLOY / "sweep.sbatch"), "--problems=x"]
    array = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "16", "SLURM_JOB_ID": "7"}
    status, notes = run(command, tmp_path, failures, **array)
    assert status == 0
    assert [arguments for _, arguments in notes] == [["--task=3", "--tasks=16", "--problems=x"]]
    assert (tmp_path / "notes.scontrol").exists() == bool(failures)


def test_kubernetes_pods_find_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = jobset()["metadata"]["name"]
    workers = {variable["name"]: variable["value"] for variable in pod()["env"]}["WORKERS"]
    command = [*pod()["command"], *pod()["args"]]
    status, notes = run(command, tmp_path, WORKERS=workers, JOB_COMPLETION_INDEX="1")
    assert status == 0
    config = json.loads(notes[0][0])
    job = jobset()["spec"]["replicatedJobs"][0]
    assert config["task"]["index"] == 1
    # JobSet names a pod <jobset>-<job>-<replica>-<index>, in the domain of its subdomain.
    subdomain = jobset()["spec"]["network"]["subdomain"]
    assert config["cluster"]["worker"] == [
        f"{name}-{job['name']}-0-{index}.{subdomain}:{pod()['ports'][0]['containerPort']}"
        for index in range(int(workers))
    ]
    sizes = job["template"]["spec"]
    assert sizes["parallelism"] == sizes["completions"] == int(workers)
    assert counted_workers(notes[0][0], monkeypatch) == int(workers)


ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "slurm.sbatch"
# Two tasks on this machine; ends with the status of the first, once both have ended.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
export SLURM_STEP_NODELIST=localhost SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2
SLURM_PROCID=0 "$@" & first=$!
SLURM_PROCID=1 "$@" & second=$!
echo $second >"$FOLDER/second"
wait $second
wait $first
"""
LOST_NODE_TRAINER = f'#!/bin/bash\nexec {sys.executable} -m ut_tf.bin.trainer "$@"\n'
LOST_NODE_FLAGS = [
    *("--problem=algorithmic_copy_decimal40", "--hparams_set=ut_tiny"),
    "--hparams=hidden_size=16,filter_size=16,num_heads=2,num_steps=2,batch_size=64",
    *("--local_eval_frequency=10", "--log_frequency=5"),
    "--problem_args=train_examples=300,validation_examples=10",
]


def start(folder: Path, train_steps: int) -> subprocess.Popen[str]:
    binaries = folder / "bin"
    binaries.mkdir()
    for name, text in (("srun", SRUN), ("ut-trainer", LOST_NODE_TRAINER)):
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "FOLDER": str(folder),
        "PAUSE": "0",
        "SLURM_JOB_ID": str(os.getpid()),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    environment.pop("TF_CONFIG", None)
    flags = [*LOST_NODE_FLAGS, f"--train_steps={train_steps}", f"--output_dir={folder / 'run'}"]
    return subprocess.Popen(
        ["bash", str(RECIPE), *flags],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_lost_worker_starts_all_of_them_again(tmp_path: Path) -> None:
    process = start(tmp_path, train_steps=60)
    assert process.stderr is not None
    lines, killed, noticed = [], 0.0, 0.0
    for line in process.stderr:
        lines.append(line)
        if not killed and re.match(r"step 1[05]/", line):
            killed = time.monotonic()
            os.kill(int((tmp_path / "second").read_text()), signal.SIGKILL)
        if killed and not noticed and line.startswith("attempt 0 ended"):
            noticed = time.monotonic()
    text = "".join(lines)
    assert process.wait(60) == 0, text
    assert 0 < noticed - killed < 60
    assert text.count("by SLURM, at localhost:") == 4
    assert "resuming from step 10" in text
    assert "Traceback" not in text
    assert "worker 0 of 2 has lost worker 1" in text
    assert max(checkpoint_steps(tmp_path / "run")) == 60
