"""What determinism and checksums cost: ratios of times measured by turns in one process.

How it is used::

    python benchmarks/faults/costs.py
    python benchmarks/faults/costs.py --repetitions=2 --updates=20

Determinism: updates of a small network, with and without TensorFlow's deterministic operations
(``tf.config.experimental.enable_op_determinism``), and whether the trainings without them all end
with the same weights, as promised, and those with them. Checksums: saving a checkpoint with and
without the SHA-256 of its files, and finding the newest intact one and reading it, against reading
alone. Each line of JSON has the least and the median time of the repetitions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import tiny  # noqa: E402
from outcomes import called  # noqa: E402


def determinism(folder: Path, repetitions: int, updates: int) -> dict[str, Any]:
    """Trains by turns with and without deterministic operations."""
    from tensorflow.python.framework import config

    times: dict[bool, list[float]] = {True: [], False: []}
    weights: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    # The first training of each kind is not timed: it warms up.
    for number in range(repetitions + 1):
        for is_on in _order(number):
            (config.enable_op_determinism if is_on else config.disable_op_determinism)()
            times[is_on].append(_trained(folder, updates))
            weights[is_on].append(tiny.weights_digest(folder / "timed", updates + 1))
            shutil.rmtree(folder / "timed")
    config.disable_op_determinism()
    more = {
        "updates": updates,
        "repeats_equal": _are_equal(weights[False]),
        "with_equal": _are_equal(weights[True]),
    }
    return _report("determinism", times[True][1:], times[False][1:], more)


def _order(number: int) -> tuple[bool, bool]:
    """With and without, each first in every other repetition."""
    return (True, False) if number % 2 else (False, True)


def _are_equal(weights: list[dict[str, Any]]) -> bool:
    """Whether all trainings ended with the same bytes; names the variables that differ."""
    first = weights[0]
    differing = {
        name
        for other in weights[1:]
        for name in {*first, *other}
        if first.get(name) != other.get(name)
    }
    if differing:
        print(f"{len(differing)} variables differ: {sorted(differing)[:5]}", file=sys.stderr)
    return not differing


def _trained(folder: Path, updates: int) -> float:
    """Seconds of the updates after the first, which is traced."""
    from ut_tf.bin import trainer
    from ut_tf.training.hooks.logging import Logging

    moments: list[float] = []
    original = Logging.after_update

    def after(hook: Logging, *arguments: Any) -> Any:
        moments.append(time.perf_counter())
        return original(hook, *arguments)

    sizes = "hidden_size=64,filter_size=128,num_heads=4,num_steps=3,batch_size=32"
    steps = f"eval_frequency={updates + 1},train_steps={updates + 1},early_stopping_patience=0"
    line = [
        word
        for word in tiny.flags(folder, folder / "timed")
        if not word.startswith(("--hparams=", "--problem_args="))
    ]
    line += [f"--hparams={sizes},{steps}", "--problem_args=train_questions=900,test_questions=9"]
    with mock.patch.object(Logging, "after_update", after):
        call = called(trainer.main, line, 300.0)
    if call.status != 0:
        raise RuntimeError(call.errors)
    return moments[-1] - moments[0]


def checksums(folder: Path, repetitions: int, megabytes: int) -> list[dict[str, Any]]:
    """Saves and reads a checkpoint by turns with and without checksums."""
    import tensorflow as tf

    from ut_tf.storage import checkpoints

    numbers = tf.random.stateless_uniform([megabytes * 250_000], [1, 2])
    checkpoint = tf.train.Checkpoint(numbers=tf.Variable(numbers))
    store = checkpoints.CheckpointStore(folder / "store", keep=1)
    whole = checkpoints.sha256_of
    save: dict[bool, list[float]] = {True: [], False: []}
    read: dict[bool, list[float]] = {True: [], False: []}
    steps = itertools.count(1)
    for number in range(repetitions):
        for is_on in _order(number):
            digest = whole if is_on else (lambda _: "0" * 64)
            with mock.patch.object(checkpoints, "sha256_of", digest):
                save[is_on].append(_seconds(partial(store.save, next(steps), checkpoint, {})))
                read[is_on].append(_seconds(partial(_restored, store, checkpoint)))
    more = {"megabytes": megabytes}
    return [
        _report("checksums, saving", save[True], save[False], more),
        _report("checksums, reading", read[True], read[False], more),
    ]


def _restored(store: Any, checkpoint: Any) -> None:
    from ut_tf.storage.checkpoints import restore

    restore(store.newest_intact(), checkpoint, partial=True)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _report(
    cost: str, with_it: list[float], without: list[float], more: dict[str, Any]
) -> dict[str, Any]:
    pairs = zip(with_it, without, strict=True)
    return {
        "cost": cost,
        "repetitions": len(with_it),
        **more,
        "seconds_with": [round(min(with_it), 3), round(statistics.median(with_it), 3)],
        "seconds_without": [round(min(without), 3), round(statistics.median(without), 3)],
        "ratio_of_least": round(min(with_it) / min(without), 3),
        "median_of_ratios": round(statistics.median(on / off for on, off in pairs), 3),
    }


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--repetitions", type=int, default=7)
    command.add_argument("--updates", type=int, default=100, help="in each repetition")
    command.add_argument("--megabytes", type=int, default=100, help="of the checkpoint's numbers")
    arguments = command.parse_args()
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for report in checksums(folder, arguments.repetitions, arguments.megabytes):
            print(json.dumps(report), flush=True)
        report = determinism(folder, arguments.repetitions, arguments.updates)
        print(json.dumps(report), flush=True)
    sys.exit(not report["repeats_equal"])


if __name__ == "__main__":
    main()
