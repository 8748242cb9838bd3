"""The number of threads that TensorFlow uses on a CPU.

::

    set_threads()        # what was measured to be best for the cores; docs/performance.md
    set_threads(4, 0)    # 4 threads for an operation, TensorFlow's choice of operations at once
"""

import os
from contextlib import suppress

from ut_tf.config.processor import usable_cores

# Up to here one thread per operation was measured to take the least time. With more cores, large
# operations need more than one.
_FEW_CORES = 2
_ENVIRONMENT = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def set_threads(intra_op: int | None = None, inter_op: int | None = None) -> None:
    """Sets TensorFlow's thread counts; call it before TensorFlow computes anything.

    What is None is the default for the cores. A default changes nothing in a program whose
    TensorFlow has begun to compute, and gives way to TF_NUM_INTRAOP_THREADS and
    TF_NUM_INTEROP_THREADS.

    Args:
      intra_op: threads of one operation; 0: TensorFlow's choice.
      inter_op: operations at once; 0: TensorFlow's choice.

    Raises:
      RuntimeError: TensorFlow has begun to compute with another count than the given one.
    """
    import tensorflow as tf

    setters = (
        tf.config.threading.set_intra_op_parallelism_threads,
        tf.config.threading.set_inter_op_parallelism_threads,
    )
    cores = usable_cores()
    defaults = (1, cores) if cores <= _FEW_CORES else (0, 0)
    counts = zip(setters, (intra_op, inter_op), defaults, _ENVIRONMENT, strict=True)
    for set_count, given, default, variable in counts:
        if given:
            set_count(given)
        elif given is None and default and variable not in os.environ:
            # The program that computes already has chosen.
            with suppress(RuntimeError):
                set_count(default)
