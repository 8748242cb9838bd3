"""Settings for all tests: eight logical CPU devices, so that what needs several replicas can be
tested without several GPUs.
"""

from __future__ import annotations

import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# A command that fails in a test shows where.
os.environ.setdefault("UT_TF_TRACEBACK", "1")
# XLA's optimisations take longer than what the tests compute.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import pytest

LOGICAL_DEVICES = 8


def pytest_configure(config: pytest.Config) -> None:
    """TensorFlow wants to know its devices before it computes anything."""
    # The process of `-n auto` that hands out the tests runs none, and others wait until it starts.
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    import tensorflow as tf

    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        processor, [tf.config.LogicalDeviceConfiguration()] * LOGICAL_DEVICES
    )
    # TensorFlow rewrites each graph for speed before its first run: a fifth of what a training of
    # a few steps costs. Commands that tests start as processes do so as they do for users.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def pytest_collection_finish() -> None:
    """Lets the garbage collector leave out what was imported, which lives as long as the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
