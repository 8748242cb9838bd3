"""How many threads TensorFlow uses on a CPU."""

from __future__ import annotations


def set_threads(intra_op: int, inter_op: int) -> None:
    """Sets TensorFlow's thread counts; call it before TensorFlow computes anything.

    Networks of few channels train fastest with one thread per operation and as many operations at
    once as there are cores: their operations are too small to be shared out, but the backward pass
      has independent ones.

    Args:
      intra_op: threads of one operation; 0: TensorFlow's choice, all cores.
      inter_op: operations at once; 0: TensorFlow's choice.
    """
    import tensorflow as tf

    if intra_op:
        tf.config.threading.set_intra_op_parallelism_threads(intra_op)
    if inter_op:
        tf.config.threading.set_inter_op_parallelism_threads(inter_op)
