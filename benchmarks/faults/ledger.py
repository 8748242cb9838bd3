"""Keeps a ledger of the examples of every update while trainings are killed and resumed, and checks
that each example enters the updates exactly once per epoch.

How it is used::

    python benchmarks/faults/ledger.py                       # one and two workers
    python benchmarks/faults/ledger.py --only=accumulation

An update that was lost with its process is made again, from the same examples: of each update the
last line counts, and the lines before it must name the same examples. The seed decides the moments.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from frame import Counts, Outcome, Plan, run
from processes import Process, cluster_environments, load

EXAMPLES, _BASE, _DIGITS = 90, 6, 3
SIZES = (
    "hidden_size=8,filter_size=8,num_heads=2,num_steps=1,batch_size=48,max_length=8,"
    "min_length_bucket=4,learning_rate=0.1,keep_checkpoint_max=2,early_stopping_patience=0"
)

# By worker, by update: the examples, once for each time that the update was made.
Entries = list[dict[int, list[list[int]]]]


class Training(NamedTuple):
    """A training whose ledger is kept.

    Fields:
      workers: how many train together.
      train_steps: updates.
      hparams: besides the sizes.
      kills: how often it is killed.
    """

    workers: int
    train_steps: int
    hparams: str
    kills: int


TRAININGS = {
    "one worker": Training(1, 60, "eval_frequency=3", 5),
    "one worker, accumulation": Training(1, 30, "eval_frequency=3,accumulate_steps=2", 4),
    "two workers": Training(2, 40, "eval_frequency=3", 3),
}


def campaign(folder: Path, plan: Plan) -> Iterator[Counts]:
    """Yields the counts of each training."""
    load()
    names = plan.chosen(TRAININGS)
    for name in names:
        yield killed(name, folder / name, plan.seconds / len(names), plan.generator(name))


def killed(name: str, place: Path, seconds: float, generator: random.Random) -> Counts:
    """Trains, kills and resumes, and reads the ledger."""
    training, deadline, kills = TRAININGS[name], time.monotonic() + seconds, 0
    place.mkdir()
    ledgers = [place / f"ledger{number}.jsonl" for number in range(training.workers)]
    while True:
        environments = cluster_environments(training.workers)
        processes = [
            start(place, number, training.train_steps, training.hparams, environment)
            for number, environment in enumerate(environments)
        ]
        if kills == training.kills or time.monotonic() > deadline:
            break
        wait_for_updates(processes[0], ledgers[0], generator.randint(2, 9))
        processes[0].ends(generator.uniform(0.0, 0.3))
        # All at once, as a machine that loses its power.
        if {process.kill() for process in processes} == {-9}:
            kills += 1
    failed = [process.text[-600:] for process in processes if process.ends() != 0]
    entries = [entries_of(ledger) for ledger in ledgers]
    mistakes = failed or mistakes_in(entries, training.train_steps)
    made = sum(map(len, entries[0].values()))
    epochs = len(sequence(entries, training.train_steps)) // EXAMPLES
    counts = Counts(name, f"{kills} kills, {epochs} epochs, {made - len(entries[0])} updates again")
    counts.add(Outcome("short" if mistakes else "same", "\n".join(mistakes)), "the ledger")
    return counts


def start(
    place: Path,
    number: int,
    train_steps: int,
    hparams: str,
    environment: dict[str, str],
    seed: int = 5,
) -> Process:
    """Starts a worker that trains on numbered examples and keeps a ledger.

    Args:
      place: of the run, the ledgers and the messages.
      number: of the worker.
      train_steps: updates.
      hparams: besides the sizes.
      environment: its TF_CONFIG.
      seed: of the training.
    """
    argv = [
        "--problem=numbered",
        "--hparams_set=ut_tiny",
        f"--hparams={SIZES},{hparams},train_steps={train_steps}",
        f"--random_seed={seed}",
        "--log_frequency=1",
        f"--output_dir={place / 'run'}",
        f"--data_dir={place / 'data'}",
        f"--tmp_dir={place / 'tmp'}",
    ]

    ledger = functools.partial(with_ledger, place / f"ledger{number}.jsonl")
    return Process("trainer", argv, place / f"messages{number}.txt", environment, ledger)


def wait_for_updates(process: Process, ledger: Path, count: int) -> bool:
    """Waits until a worker has begun so many more updates; False if it ends before."""
    wanted = _lines(ledger) + count
    return process.waits_for(lambda: _lines(ledger) >= wanted)


def _lines(ledger: Path) -> int:
    return ledger.read_text().count("\n") if ledger.exists() else 0


def with_ledger(file: Path) -> None:
    """Registers the problem, and writes a line for each update: its number and its examples."""
    from ut_tf import registry
    from ut_tf.training.loop import TrainingLoop
    from ut_tf.training.step import TrainingStep

    registry.problems.register("numbered", _numbered())
    states: list[Any] = []
    make, update = TrainingLoop.__init__, TrainingStep.update

    def remembered(self: Any, step: Any, batches: Any, state: Any, *others: Any) -> None:
        states.append(state)
        make(self, step, batches, state, *others)

    @functools.wraps(update)
    def written(self: Any, batches: Any, *carry: Any) -> Any:
        numbers = [number for batch in batches for number in numbers_in(batch)]
        with file.open("a") as ledger:
            # The line begins with its newline, since the one before may have been cut short.
            ledger.write(
                "\n" + json.dumps({"step": states[-1].progress.step + 1, "examples": numbers})
            )
        return update(self, batches, *carry)

    TrainingLoop.__init__ = remembered  # type: ignore[method-assign]
    TrainingStep.update = written  # type: ignore[method-assign]


def numbers_in(batch: Any) -> list[int]:
    """The numbers of the examples in a batch, those without weight left out."""
    inputs = batch["inputs"].numpy()
    digits = inputs.reshape(-1, inputs.shape[-1])[:, :_DIGITS] - 2
    weights = batch["weight"].numpy().reshape(-1)
    return [
        int(sum(digit * _BASE**place for place, digit in enumerate(row)))
        for row, weight in zip(digits, weights, strict=True)
        if weight
    ]


def _numbered() -> type:
    """A problem whose examples begin with their number, and are of different lengths."""
    import numpy as np
    import tensorflow as tf

    from ut_tf.data.example_table import ExampleTable, example_order
    from ut_tf.data.problem import EvaluationSet, Problem
    from ut_tf.problem_spec import ProblemSpec

    class Numbered(Problem):
        name = "numbered"
        selection_metric = ("loss", "min")

        def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
            del data_dir, tmp_dir

        def spec(self, data_dir: Path) -> ProblemSpec:
            del data_dir
            return ProblemSpec("tokens", "class", _BASE + 2, 2)

        def examples(
            self,
            split: str,
            data_dir: Path,
            seed: int = 0,
            epoch: int = 0,
            length: int | None = None,
        ) -> ExampleTable:
            del data_dir, length
            order = example_order(split, EXAMPLES, seed, epoch)
            rows = np.zeros([EXAMPLES, 7], np.int32)
            rows[:, :_DIGITS] = order[:, None] // _BASE ** np.arange(_DIGITS) % _BASE + 2
            lengths = _DIGITS + order % 5
            rows[:, _DIGITS:] = np.where(np.arange(_DIGITS, 7) < lengths[:, None], 2, 0)
            ids, classes = tf.constant(rows), tf.constant(order % 2, tf.int32)

            def batch(numbers: Any) -> dict[str, Any]:
                return {"inputs": tf.gather(ids, numbers), "targets": tf.gather(classes, numbers)}

            return ExampleTable(lengths.astype(np.int32), batch)

        def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
            del lengths
            return [EvaluationSet("", "validation", "classify")]

    return Numbered


def entries_of(ledger: Path) -> dict[int, list[list[int]]]:
    """The examples of each update, once for each time that it was made."""
    entries: dict[int, list[list[int]]] = collections.defaultdict(list)
    for line in ledger.read_text().splitlines():
        # The last line before a kill may be cut short.
        with contextlib.suppress(json.JSONDecodeError):
            values = json.loads(line)
            entries[values["step"]].append(values["examples"])
    return entries


def sequence(entries: Entries, train_steps: int) -> list[int]:
    """The examples of all updates, of all workers, in the order of the updates."""
    return [
        number
        for step in range(1, train_steps + 1)
        for of_worker in entries
        for number in (of_worker.get(step) or [[]])[-1]
    ]


def mistakes_in(entries: Entries, train_steps: int) -> list[str]:
    """What is not as it should be in a ledger."""
    mistakes = [
        f"update {step} of worker {worker} was made of different examples"
        for worker, of_worker in enumerate(entries)
        for step, made in sorted(of_worker.items())
        if any(examples != made[0] for examples in made)
    ]
    seen = sequence(entries, train_steps)
    for epoch in range(-(-len(seen) // EXAMPLES)):
        counts = collections.Counter(seen[epoch * EXAMPLES : (epoch + 1) * EXAMPLES])
        twice = sorted(number for number, count in counts.items() if count > 1)
        if twice:
            mistakes.append(f"epoch {epoch}: examples {twice} more than once")
    if len(seen) < EXAMPLES:
        mistakes.append(f"{len(seen)} examples in all updates: less than an epoch")
    return mistakes


if __name__ == "__main__":
    run(__doc__, campaign, seconds=200.0)
