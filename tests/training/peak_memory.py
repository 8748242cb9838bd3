"""Prints the peak memory in MB of a process that updates a network of given hyperparameters."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tensorflow as tf

from ut_tf.factories import make_hparams
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.plan import BatchShape, RandomTraining

SIZES = "hidden_size=64,filter_size=256,num_heads=4,step_encoding=none"


def main() -> None:
    # Each thread has an arena of its own.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    spec = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
    hparams = make_hparams("ut_tiny", f"{SIZES},{sys.argv[1]}")
    training = RandomTraining(hparams, spec, tf.distribute.get_strategy())
    for _ in range(2):
        training.update(BatchShape(128, 64, 64))
    # The peak that getrusage gives is at least that of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024)


main()
