"""Two workers by srun's variables, one of which is killed: the job starts again and ends well."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ut_tf.storage.layout import checkpoint_steps

pytestmark = pytest.mark.slow

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
TRAINER = f'#!/bin/bash\nexec {sys.executable} -m ut_tf.bin.trainer "$@"\n'
FLAGS = [
    "--problem=algorithmic_copy_decimal40",
    "--hparams_set=ut_tiny",
    "--hparams=hidden_size=16,filter_size=16,num_heads=2,num_steps=2,batch_size=64",
    "--local_eval_frequency=10",
    "--log_frequency=5",
    "--problem_args=train_examples=300,validation_examples=10",
]


def start(folder: Path, train_steps: int) -> subprocess.Popen[str]:
    binaries = folder / "bin"
    binaries.mkdir()
    for name, text in (("srun", SRUN), ("ut-trainer", TRAINER)):
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
    flags = [*FLAGS, f"--train_steps={train_steps}", f"--output_dir={folder / 'run'}"]
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
