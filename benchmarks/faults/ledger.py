"""Keeps a ledger of the examples of every update while trainings are killed and resumed, and checks
that each example enters the updates exactly once per epoch.

How it is used::

    python benchmarks/faults/ledger.py                # one and two workers
    python benchmarks/faults/ledger.py --smoke        # one worker

An update that was lost with its process is made again, from the same examples: of each update the
last line counts, and the lines before it must name the same examples. The seed decides the moments.
The line of JSON on standard output counts epochs, updates and kills.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from processes import Process, cluster_environments, folder_of, load, tell

EXAMPLES, _BASE, _DIGITS = 90, 6, 3
_FLAGS = (
    "--problem=numbered",
    "--hparams_set=ut_tiny",
    "--random_seed=5",
    "--log_frequency=1",
)
_SIZES = (
    "hidden_size=8,filter_size=8,num_heads=2,num_steps=1,batch_size=48,max_length=8,"
    "min_length_bucket=4,learning_rate=0.1,eval_frequency=3,keep_checkpoint_max=2,"
    "early_stopping_patience=0"
)


class Trial(NamedTuple):
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


TRIALS = {
    "one worker": Trial(1, 60, "accumulate_steps=1", 5),
    "one worker, accumulation": Trial(1, 30, "accumulate_steps=2", 4),
    "two workers": Trial(2, 40, "accumulate_steps=1", 3),
}


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
    def written(self: Any, batches: Any) -> Any:
        numbers = [number for batch in batches for number in numbers_in(batch)]
        with file.open("a") as ledger:
            # The line begins with its newline, since the one before may have been cut short.
            ledger.write("\n" + json.dumps({"step": states[-1].step + 1, "examples": numbers}))
        return update(self, batches)

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


def run_trial(
    name: str, trial: Trial, folder: Path, generator: random.Random, deadline: float
) -> dict[str, Any]:
    """Trains, kills and resumes, and reads the ledger."""
    place = folder / name.replace(" ", "_").replace(",", "")
    place.mkdir()
    ledgers = [place / f"ledger{number}.jsonl" for number in range(trial.workers)]
    kills = 0
    while True:
        processes = start(trial, place, ledgers)
        if kills < trial.kills and time.monotonic() < deadline:
            reached = processes[0].reaches("step", generator.randint(2, 9))
            time.sleep(generator.uniform(0.0, 0.3) if reached else 0.0)
            # All at once, as a machine that loses its power.
            if {process.kill() < 0 for process in processes} == {True}:
                kills += 1
                tell(f"{name}: killed ({kills})")
                continue
        statuses = [process.ends() for process in processes]
        break
    failed = [process.text()[-600:] for process in processes if process.status != 0]
    entries = [entries_of(ledger) for ledger in ledgers]
    mistakes = failed or mistakes_in(entries, trial.train_steps)
    tell(f"{name}: {'; '.join(mistakes) or 'each example once per epoch'}")
    return {
        "trial": name,
        "workers": trial.workers,
        "kills": kills,
        "updates": trial.train_steps,
        "updates_made_again": sum(map(len, entries[0].values())) - len(entries[0]),
        "epochs": len(sequence(entries, trial.train_steps)) // EXAMPLES,
        "statuses": statuses,
        "failures": mistakes,
    }


def start(trial: Trial, place: Path, ledgers: list[Path]) -> list[Process]:
    argv = [
        *_FLAGS,
        f"--hparams={_SIZES},{trial.hparams},train_steps={trial.train_steps}",
        f"--output_dir={place / 'run'}",
        f"--data_dir={place / 'data'}",
        f"--tmp_dir={place / 'tmp'}",
    ]
    return [
        Process(
            "trainer",
            argv,
            place / f"messages{number}.txt",
            environment,
            functools.partial(with_ledger, ledgers[number]),
        )
        for number, environment in enumerate(cluster_environments(trial.workers))
    ]


def entries_of(ledger: Path) -> dict[int, list[list[int]]]:
    """The examples of each update, once for each time that it was made."""
    entries: dict[int, list[list[int]]] = collections.defaultdict(list)
    for line in ledger.read_text().splitlines():
        # The last line before a kill may be cut short.
        with contextlib.suppress(json.JSONDecodeError):
            values = json.loads(line)
            entries[values["step"]].append(values["examples"])
    return entries


def sequence(entries: list[dict[int, list[list[int]]]], train_steps: int) -> list[int]:
    """The examples of all updates, of all workers, in the order of the updates."""
    return [
        number
        for step in range(1, train_steps + 1)
        for of_worker in entries
        for number in (of_worker.get(step) or [[]])[-1]
    ]


def mistakes_in(entries: list[dict[int, list[list[int]]]], train_steps: int) -> list[str]:
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


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--seconds", type=float, default=600.0, help="after which none is killed")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--smoke", action="store_true", help="one worker, two kills")
    command.add_argument("--trials", default="", help="; ".join(TRIALS))
    command.add_argument("--folder", type=Path, help="keeps all runs there")
    arguments = command.parse_args()
    began, generator = time.monotonic(), random.Random(arguments.seed)
    trials = {"one worker": TRIALS["one worker"]._replace(kills=2, train_steps=30)}
    if not arguments.smoke:
        names = arguments.trials.split(";") if arguments.trials else TRIALS
        trials = {name.strip(): TRIALS[name.strip()] for name in names}
    with folder_of(arguments.folder) as folder:
        load()
        results = [
            run_trial(name, trial, folder, generator, began + arguments.seconds)
            for name, trial in trials.items()
        ]
    failures = [failure for result in results for failure in result["failures"]]
    report = {"test": "ledger", "seed": arguments.seed, "examples": EXAMPLES, "trials": results}
    print(json.dumps({**report, "seconds": round(time.monotonic() - began)}), flush=True)
    os._exit(bool(failures))


if __name__ == "__main__":
    main()
