"""Settings for all tests: eight logical CPU devices, so that what needs several replicas can be
tested without several GPUs.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# A command that fails in a test shows where.
os.environ.setdefault("UT_TF_TRACEBACK", "1")
# Processes that tests start would each compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# XLA's optimisations take longer than what the tests compute.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import pytest

from tests.browser import browser, tab  # noqa: F401

sys.dont_write_bytecode = False
LOGICAL_DEVICES = 8
LONGEST_FILES = ("test_user_defaults.py", "test_export.py", "test_end_to_end.py")
# Temporary files lie in memory where it has room: runs wait for the disk at each checkpoint.
MEMORY, ROOM = "/dev/shm", 4 * 2**30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--third", type=int, help="run a third of the tests: those of this number modulo 3"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps a third of the tests with --third. The checksums of their names decide which.

    A process that began the longest files last would be waited for.
    """
    items.sort(key=lambda item: item.path.name not in LONGEST_FILES)
    third = config.getoption("third")
    if third is None:
        return
    thirds: list[list[pytest.Item]] = [[], [], []]
    for item in items:
        thirds[zlib.crc32(item.nodeid.encode()) % 3].append(item)
    items[:] = thirds.pop(third % 3)
    config.hook.pytest_deselected(items=[item for other in thirds for item in other])


def pytest_configure(config: pytest.Config) -> None:
    """TensorFlow wants to know its devices before it computes anything."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
    # The process of `-n auto` that hands out the tests runs none, and others wait until it starts.
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    import tensorflow as tf

    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        processor, [tf.config.LogicalDeviceConfiguration()] * LOGICAL_DEVICES
    )
    # Handing a few numbers to another thread takes longer than computing them: a tenth of the time
    # of all tests. The slow tests, and commands that tests start as processes, use all cores.
    if config.getoption("markexpr") == "not slow":
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leaves graphs as they were traced unless slow tests run, and lets the garbage collector leave
    out what was imported, which lives as long as the tests.
    """
    # TensorFlow rewrites each graph for speed before its first run: a fifth of what a training of
    # a few steps costs. Commands that tests start as processes do so as they do for users.
    if session.items and not any(item.get_closest_marker("slow") for item in session.items):
        _rewrite_graphs(False)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


@pytest.fixture(scope="module", autouse=True)
def _freed_memory() -> Iterator[None]:
    """Frees the graphs of a module's tests, which refer to themselves: gigabytes after some hundred
    modules.
    """
    yield
    # The last count is of a million objects each.
    if gc.get_count()[2]:
        gc.collect()


@pytest.fixture(params=["eager", pytest.param("graphs", marks=pytest.mark.slow)])
def eagerly(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without graphs, which a few calls of a tiny network are sooner computed than made; among the
    slow tests with them.
    """
    from tests.eager import eager_functions

    with eager_functions() if request.param == "eager" else nullcontext():
        yield


@pytest.fixture
def eager() -> Iterator[None]:
    """Without graphs, where other tests run the same with them."""
    from tests.eager import eager_functions

    with eager_functions():
        yield


@pytest.fixture
def rewritten_graphs() -> Iterator[None]:
    """Graphs as TensorFlow rewrites them for speed, which are those that users run."""
    before = _rewrite_graphs(True)
    yield
    _rewrite_graphs(before)


def _rewrite_graphs(wanted: bool) -> bool:
    """Turns TensorFlow's rewriting of graphs on or off; whether it was on."""
    import tensorflow as tf

    options = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})
    return not options.get("disable_meta_optimizer", False)
