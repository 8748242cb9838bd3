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

import tensorflow as tf

LOGICAL_DEVICES = 8


def pytest_configure() -> None:
    """TensorFlow wants to know its devices before it computes anything."""
    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        processor, [tf.config.LogicalDeviceConfiguration()] * LOGICAL_DEVICES
    )


def pytest_collection_finish() -> None:
    """Lets the garbage collector leave out what was imported, which lives as long as the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
