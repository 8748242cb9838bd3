"""Agreement between workers that train together: versions, settings, data.

::

    check_settings(strategy, run, train_steps)          # before anything is written
    check_agreement(workers, facts_of(run, train_steps, data_digest(problem, data_dir, seed)))
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from ut_tf.data.batch_plan import evenly_spaced
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError
from ut_tf.run import Run
from ut_tf.run_config import installed_versions
from ut_tf.training.distribution import Workers, lost_workers_named

_SAMPLE = 256
# Whole numbers of so many bytes are exact in float64, also where a few of them are added up.
_DIGEST_BYTES = 6


class Facts(NamedTuple):
    """The values that must be equal on all workers.

    Fields:
      versions: of ut-tf and of what it computes with.
      settings: problem, seed, hyperparameters and updates.
      data: digest of the training data.
    """

    versions: str
    settings: str
    data: str


_DIFFERENCES = Facts(
    "has other versions of ut-tf, TensorFlow or Keras: install the same on all machines",
    "trains another problem, with another seed or other hyperparameters: give all workers the same"
    " command",
    "has other training data: give a `data_dir` that all workers see, or copy one to all machines",
)


def check_agreement(workers: Workers, facts: Facts) -> None:
    """Raises UserError, on every worker, where one has other facts than the first. Waits for all of
    them.
    """
    rows = workers.gathered([_number(fact) for fact in facts])
    for place, difference in enumerate(_DIFFERENCES):
        others = [number for number, row in enumerate(rows) if row[place] != rows[0][place]]
        if others:
            own = f" (worker {workers.index}: {facts.versions})" if place == 0 else ""
            raise UserError(
                f"worker {others[0]} of {workers.count} is not like worker 0, it {difference}{own}."
            )


def check_settings(strategy: Any, run: Run, train_steps: int | None) -> None:
    """Raises UserError, on every worker, where one has other versions or settings than the first:
    to be called before a run directory is written.
    """
    workers = Workers.of(strategy)
    with lost_workers_named(workers):
        check_agreement(workers, facts_of(run, train_steps or run.hparams.training.train_steps))


def facts_of(run: Run, train_steps: int, data: str = "") -> Facts:
    """The facts of this process; of its precision ``check_same_precision`` tells."""
    versions = {name: text for name, text in installed_versions().items() if name != "python"}
    hparams = run.hparams.to_dict()
    hparams["training"] = {**hparams["training"], "dtype_policy": ""}
    settings = [run.problem, run.seed, hparams, train_steps]
    return Facts(
        ", ".join(f"{name} {text}" for name, text in versions.items()),
        json.dumps(settings, sort_keys=True),
        data,
    )


def data_digest(problem: Problem, data_dir: Path, seed: int) -> str:
    """A digest of the lengths of the first epoch's training examples, and of some examples; of a
    split in pools, of the first pool.
    """
    digest = hashlib.sha256(repr(problem.spec(data_dir)).encode())
    pools = problem.example_pools(data_dir, seed, 0)
    if pools is None:
        table = problem.examples("train", data_dir, seed=seed, epoch=0)
        lengths = table.lengths
        sample = table.batch(tf.constant(evenly_spaced(len(lengths), _SAMPLE)))
    else:
        pool = pools.pool(0)
        lengths = pool.lengths
        sample = pool.load()(evenly_spaced(len(lengths), _SAMPLE))
        digest.update(str(pools.count).encode())
    digest.update(lengths.tobytes())
    for name in sorted(sample):
        digest.update(name.encode() + tf.io.serialize_tensor(sample[name]).numpy())
    return digest.hexdigest()


def _number(fact: str) -> float:
    return float(int.from_bytes(hashlib.sha256(fact.encode()).digest()[:_DIGEST_BYTES], "big"))
