"""What the programs of the peers share: the network's shape, its coordinates, and the loop that
answers ``processes.Peer``.

::

    task = json.loads(sys.argv[1])
    batches = stored_batches(task)
    answer(lambda number: loss, batches)   # after an update with that batch

It imports neither TensorFlow nor ut-tf.
"""

import dataclasses
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

LEARNING_RATE = 1e-4


@dataclasses.dataclass(frozen=True)
class Network:
    """The shape of the network; fields are named as the library's hyperparameters."""

    hidden_size: int
    filter_size: int
    num_heads: int
    num_steps: int
    norm: str
    norm_epsilon: float
    dropout: float
    attention_dropout: float
    relu_dropout: float
    position: str
    step_encoding: str


class Batch(NamedTuple):
    """A batch with its FLOP.

    Fields:
      flop: of an update.
      inputs: int64 [batch, input_length].
      targets: int64 [batch, target_length].
    """

    flop: int
    inputs: np.ndarray[Any, Any]
    targets: np.ndarray[Any, Any]


def positions(form: str, count: int, hidden_size: int) -> np.ndarray[Any, Any]:
    """The signals float32 [count, hidden_size] of the first positions or steps.

    Args:
      form: "paper" counts from 1, with sines and cosines in turn (arXiv 1807.03819, equations 6
        and 7); "tensor2tensor" from 0, with all sines before all cosines.
    """
    half, order = hidden_size // 2, np.arange(count, dtype=np.float32)
    if form == "paper":
        exponents = np.arange(half) * (2.0 / hidden_size)
        angles = (order + 1.0)[:, None] * np.exp(-math.log(10000.0) * exponents)
        signals = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(count, -1)
    else:
        increment = math.log(10000.0) / max(half - 1, 1)
        angles = order[:, None] * np.exp(-increment * np.arange(half))
        signals = np.concatenate([np.sin(angles), np.cos(angles)], -1)
    return signals.astype(np.float32)


def stored_batches(task: dict[str, Any]) -> list[Batch]:
    """The batches of the file ``task["batches"]``."""
    stored = np.load(task["batches"])
    return [
        Batch(
            int(flop), *(stored[f"{name}_{number}"].astype(np.int64) for name in Batch._fields[1:])
        )
        for number, flop in enumerate(stored["flop"])
    ]


def answer(update: Callable[[int], Any], batches: Sequence[Batch]) -> None:
    """Trains on each batch twice, prints that it is ready, then answers each line of standard
    input, seconds, with a line of JSON: what ``train.Measurement`` holds.

    Args:
      update: updates the weights with the batch of that number; returns the loss [].
      batches: that the updates take in turn.
    """
    turns = itertools.cycle(range(len(batches)))
    for number in itertools.islice(turns, 2 * len(batches)):
        float(update(number))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        numbers: list[int] = []
        loss: Any = math.nan
        began, cpu_began = time.perf_counter(), time.process_time()
        while not numbers or time.perf_counter() - began < float(line):
            numbers.append(next(turns))
            loss = update(numbers[-1])
        loss = float(loss)
        measured = {
            "steps": len(numbers),
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - cpu_began,
            "flop": sum(batches[number].flop for number in numbers),
            "tokens": sum(int((batches[number].targets != 0).sum()) for number in numbers),
            "positions": sum(batches[number].targets.size for number in numbers),
            "loss": loss,
        }
        print(json.dumps(measured), flush=True)
