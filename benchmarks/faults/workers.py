"""Disturbs one of several workers that train together on this machine, and looks at what the others
say, how soon they end, and with what weights all end after they are started again.

How it is used::

    python benchmarks/faults/workers.py                  # all cases
    python benchmarks/faults/workers.py --only=SIGKILL

The other worker must end within a minute with one line that names the disturbed one, and all of
them, started again, with the weights of a training that nobody disturbed; so must workers that are
both killed at once, as on a machine that loses its power. Of two trainings that begin in one
directory at the same moment, one is refused.
"""

import functools
import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from frame import Counts, Outcome, Plan, run
from kills import different_files
from processes import Process, cluster_environments, load

MOST_SECONDS = 60.0
_STEPS = 24
_FLAGS = (
    "--problem=algorithmic_copy_decimal40",
    "--problem_args=max_length=6,train_examples=90,validation_length=2,validation_examples=4",
    "--hparams_set=ut_tiny",
    "--log_frequency=1",
)
_HPARAMS = (
    "hidden_size=8,filter_size=8,num_heads=2,num_steps=1,batch_size=48,max_length=8,"
    "min_length_bucket=4,learning_rate=0.1,keep_checkpoint_max=2,early_stopping_patience=0,"
    "eval_frequency=6,dropout=0.1"
)
_KILLS = 3


class Cluster(NamedTuple):
    """Two workers on this machine that train a run together.

    Fields:
      place: folder of the run and the messages.
    """

    place: Path

    def start(self, seed: int = 5) -> list[Process]:
        """Starts both workers; the seed is that of the last one."""
        self.place.mkdir(exist_ok=True)
        for messages in self.place.glob("messages*.txt"):
            messages.unlink()
        environments = cluster_environments(2)
        return [
            start(self.place, number, own, environments[number])
            for number, own in enumerate((5, seed))
        ]

    def wait_for_updates(self, process: Process, count: int) -> bool:
        """Waits until so many more updates are logged; False if the process ends before."""
        metrics = self.place / "run" / "metrics.jsonl"

        def logged() -> int:
            return metrics.read_bytes().count(b'"kind": "train"') if metrics.exists() else 0

        wanted = logged() + count
        return process.waits_for(lambda: logged() >= wanted)

    def failures(self) -> list[str]:
        """Starts all workers and lets them end; sentences about those that fail."""
        processes = self.start()
        statuses = [process.ends() for process in processes]
        return [
            f"worker {number} ended with {process.kill()}: {last_line(process)}"
            for number, process in enumerate(processes)
            if statuses[number] != 0
        ]


def campaign(folder: Path, plan: Plan) -> Iterator[Counts]:
    """Yields the counts of each case."""
    load()
    whole = run_undisturbed(folder)
    cases: dict[str, Callable[[Counts, Cluster], None]] = {
        f"{signal.Signals(number).name} to worker {disturbed}": functools.partial(
            disturb, number, disturbed, plan.generator("signals")
        )
        for number in (signal.SIGKILL, signal.SIGSTOP)
        for disturbed in (1, 0)
    }
    cases["worker 1 with another seed"] = start_with_another_seed
    cases["SIGKILL to both workers"] = functools.partial(kill_all, plan.generator("kills"))
    deadline = time.monotonic() + plan.seconds
    for name in plan.chosen(cases):
        if time.monotonic() < deadline:
            counts, cluster = Counts(name), Cluster(folder / name)
            cases[name](counts, cluster)
            resume(counts, cluster, whole)
            yield counts
    for name in plan.chosen(["two trainings"]):
        counts = Counts(name)
        two_trainings(counts, folder, plan.generator(name))
        yield counts


def start(
    place: Path, number: int, seed: int, environment: Mapping[str, str], train_steps: int = _STEPS
) -> Process:
    """Starts a worker; its messages are in `place`, and the run."""
    argv = [
        *_FLAGS,
        f"--hparams={_HPARAMS},train_steps={train_steps}",
        f"--random_seed={seed}",
        f"--output_dir={place / 'run'}",
        f"--data_dir={place / 'data'}",
        f"--tmp_dir={place / 'tmp'}",
    ]
    return Process("trainer", argv, place / f"messages{number}.txt", environment)


def run_undisturbed(folder: Path) -> Path:
    """The folder of a training that nobody disturbs."""
    cluster = Cluster(folder / "whole")
    if failures := cluster.failures():
        raise SystemExit("\n".join(failures))
    return cluster.place


def last_line(process: Process) -> str:
    """The command's own last line on standard error."""
    lines = [line for line in process.text.splitlines() if line.startswith("ut-trainer:")]
    return lines[-1] if lines else process.text[-300:]


def disturb(
    number: int, disturbed: int, generator: random.Random, counts: Counts, cluster: Cluster
) -> None:
    """A worker gets SIGKILL or SIGSTOP while it updates, and waits in a collective or computes."""
    processes = cluster.start()
    victim, other = processes[disturbed], processes[1 - disturbed]
    if not cluster.wait_for_updates(victim, generator.randint(3, 9)):
        raise SystemExit(f"{counts.fault}: the worker ended before:\n{victim.text}")
    time.sleep(generator.uniform(0.0, 0.01))
    victim.send(number)
    judge(counts, other, time.monotonic(), disturbed)
    victim.kill()


def start_with_another_seed(counts: Counts, cluster: Cluster) -> None:
    """Worker 1 has another seed, as tests/training/test_distribution.py has other data; both end
    with a line.
    """
    began = time.monotonic()
    processes = cluster.start(seed=6)
    judge(counts, processes[0], began, 1)
    processes[1].ends(MOST_SECONDS)
    processes[1].kill()


def kill_all(generator: random.Random, counts: Counts, cluster: Cluster) -> None:
    """Both workers are killed at one moment, and started again, some times."""
    for _ in range(_KILLS):
        processes = cluster.start()
        cluster.wait_for_updates(processes[0], generator.randint(2, 9))
        processes[0].ends(generator.uniform(0.0, 0.3))
        if {process.kill() for process in processes} != {-9}:
            break
    counts.note = f"{_KILLS} kills"


def judge(counts: Counts, process: Process, began: float, disturbed: int) -> None:
    """Waits for the end of a worker that was not disturbed, and counts it."""
    status = process.ends(began + MOST_SECONDS - time.monotonic())
    counts.note = f"ends after {time.monotonic() - began:.1f} s"
    process.kill()
    line = last_line(process)
    is_told = status == 1 and f"worker {disturbed}" in line and "Traceback" not in process.text
    told = Outcome("refused" if is_told else "short", f"status {status}: {process.text}")
    counts.add(told, "the other worker")


def resume(counts: Counts, cluster: Cluster, whole: Path) -> None:
    """Starts both again, and compares the run with that of the undisturbed training."""
    failures = cluster.failures() or different_files(whole / "run", cluster.place / "run")
    outcome = Outcome("short" if failures else "same", "\n".join(failures))
    counts.add(outcome, "the resumed training")


def two_trainings(counts: Counts, folder: Path, generator: random.Random) -> None:
    """Two trainings begin in one directory at one moment, with seeds of their own."""
    for number in range(3):
        place, seeds = folder / f"pair{number}", generator.sample(range(100), 2)
        place.mkdir()
        pair = [start(place, index, seed, {}, 4) for index, seed in enumerate(seeds)]
        statuses = [process.ends() for process in pair]
        outcome = Outcome("short", f"{statuses}: {pair[0].text}{pair[1].text}")
        if sorted(map(str, statuses)) == ["0", "1"]:
            loser, winner = pair[statuses.index(1)], seeds[statuses.index(0)]
            stored = json.loads((place / "run" / "config.json").read_text())
            if "error: " in last_line(loser) and stored["seed"] == winner:
                outcome = Outcome("refused")
        counts.add(outcome, f"pair {number}")


if __name__ == "__main__":
    run(__doc__, campaign, seconds=360.0)
