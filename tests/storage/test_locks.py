"""Directories that are not to be trained in: another process does, or they hold a mean of
checkpoints.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.toy import toy_run
from ut_tf.errors import UserError
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.layout import LOCK_FILE
from ut_tf.storage.locks import held_alone
from ut_tf.training.trainer import train

HOLD = (
    "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
    " print('held', flush=True); time.sleep(60)"
)


def test_training_where_another_process_trains_is_refused_until_that_is_killed(
    tmp_path: Path,
) -> None:
    run = toy_run(tmp_path, train_steps=1)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / LOCK_FILE)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "held\n"
    try:
        with pytest.raises(UserError, match="another process trains in"):
            train(run)
        assert not (tmp_path / "checkpoints").exists()
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert train(run).step == 1


def test_the_lock_is_given_up_in_the_end(tmp_path: Path) -> None:
    for _ in range(2):
        with held_alone(tmp_path), pytest.raises(UserError), held_alone(tmp_path):
            pass


def test_where_nothing_can_be_locked_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".lock").mkdir()
    with held_alone(tmp_path):
        assert "cannot be locked" in capsys.readouterr().err


def test_a_mean_of_checkpoints_cannot_be_trained_on(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    store = CheckpointStore(run.output_dir)
    store.save(
        3, tf.train.Checkpoint(model=run.make_model()), {"averaged_steps": [2, 3], "best_step": 3}
    )
    with pytest.raises(UserError, match=r"mean of the checkpoints of steps 2, 3"):
        train(run)
