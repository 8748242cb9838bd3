"""Disturbs one of several workers that train together on this machine, and looks at what the others
say, how soon they end, and with what weights all end after they are started again.

How it is used::

    python benchmarks/faults/workers.py               # all cases
    python benchmarks/faults/workers.py --smoke       # one worker killed

The cases: a worker is killed in a step (in a collective), one is stopped (SIGSTOP), one is started
late, one has another version of the package, other data or another configuration.
Wanted is that the other worker ends within a minute with one line that names the disturbed one, and
that all of them, started again, end with the weights of a training that nobody disturbed. The last
case is TensorFlow's own scenario of failing workers: four of them, one gets SIGTERM at a random
time, all are started again. The line of JSON on standard output has an entry per case.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from equality import different_checkpoints
from ledger import with_ledger
from processes import Process, cluster_environments, folder_of, load, tell

# Within how many seconds the worker that was not disturbed must end.
MOST_SECONDS = 60.0
_STEPS = 24
_HPARAMS = (
    "hidden_size=8,filter_size=8,num_heads=2,num_steps=1,dropout=0.1,batch_size=48,max_length=8,"
    "min_length_bucket=4,learning_rate=0.1,eval_frequency=6,keep_checkpoint_max=2,"
    "early_stopping_patience=0"
)

Before = Callable[[], None]


class Cluster(NamedTuple):
    """Workers on this machine that train a run together.

    Fields:
      place: folder of the run, the ledgers and the messages.
      train_steps: updates.
      environments: TF_CONFIG of each worker.
    """

    place: Path
    train_steps: int
    environments: Sequence[dict[str, str]]

    @classmethod
    def of(cls, place: Path, workers: int, train_steps: int = _STEPS) -> Cluster:
        place.mkdir(exist_ok=True)
        return cls(place, train_steps, cluster_environments(workers))

    def start(self, number: int, before: Before | None = None, seed: int = 5) -> Process:
        """Starts a worker; `before` is called in it first."""
        place = self.place
        messages = place / f"messages{number}.txt"
        messages.unlink(missing_ok=True)
        argv = [
            "--problem=numbered",
            "--hparams_set=ut_tiny",
            f"--hparams={_HPARAMS},train_steps={self.train_steps}",
            f"--random_seed={seed}",
            "--log_frequency=1",
            f"--output_dir={place / 'run'}",
            f"--data_dir={place / 'data'}",
            f"--tmp_dir={place / 'tmp'}",
        ]
        ledger = functools.partial(with_ledger, place / f"ledger{number}.jsonl")

        def both() -> None:
            ledger()
            if before is not None:
                before()

        return Process("trainer", argv, messages, self.environments[number], both)

    def start_all(self) -> list[Process]:
        return [self.start(number) for number in range(len(self.environments))]

    def runs_to_the_end(self) -> list[str]:
        """Starts all workers again; sentences about those that fail."""
        processes = self.start_all()
        deadline = time.monotonic() + 300.0
        for process in processes:
            if process.ends(deadline) is None:
                process.kill()
        return [
            f"worker {number} ended with {process.status}: {last_line(process)}"
            for number, process in enumerate(processes)
            if process.status != 0
        ]


def last_line(process: Process) -> str:
    """The command's own last line on standard error."""
    lines = [line for line in process.text().splitlines() if line.startswith("ut-trainer:")]
    return lines[-1] if lines else process.text()[-300:]


class Outcome(NamedTuple):
    """How a worker that was not disturbed ended.

    Fields:
      seconds: from the disturbance to its end; None: it did not end in time.
      status, line: its exit status and its last line.
      traces: lines of a traceback among its messages.
    """

    seconds: float | None
    status: int | None
    line: str
    traces: int


def outcome_of(process: Process, began: float, most: float = MOST_SECONDS) -> Outcome:
    """Waits for a worker's end; kills it where that does not come."""
    status = process.ends(began + most)
    seconds = None if status is None else round(time.monotonic() - began, 1)
    if status is None:
        process.kill()
    traces = sum(line.startswith("Traceback") for line in process.text().splitlines())
    return Outcome(seconds, process.status, last_line(process), traces)


def judged(name: str, outcome: Outcome, disturbed: int) -> dict[str, Any]:
    """The entry of a case, with what is not as it should be."""
    failures = []
    if outcome.seconds is None:
        failures.append(f"the other worker had not ended after {MOST_SECONDS:.0f} seconds")
    elif outcome.status != 1 or outcome.traces or f"worker {disturbed}" not in outcome.line:
        failures.append(f"status {outcome.status}, {outcome.traces} traces: {outcome.line}")
    return {
        "case": name,
        "seconds": outcome.seconds,
        "line": outcome.line,
        "failures": failures,
    }


def case_of_signal(
    folder: Path, whole: Path, number: int, disturbed: int, generator: random.Random
) -> dict[str, Any]:
    """A worker gets SIGKILL or SIGSTOP while it updates, and waits in a collective or computes."""
    name = f"{signal.Signals(number).name} to worker {disturbed}"
    cluster = Cluster.of(folder / name.replace(" ", "_"), 2)
    processes = cluster.start_all()
    if not processes[disturbed].reaches("step", generator.randint(3, 9)):
        raise SystemExit(f"{name}: the worker ended before:\n{processes[disturbed].text()}")
    time.sleep(generator.uniform(0.0, 0.01))
    began = time.monotonic()
    os.kill(processes[disturbed].pid, number)
    entry = judged(name, outcome_of(processes[1 - disturbed], began), disturbed)
    processes[disturbed].kill()
    return resumed(entry, cluster, whole)


def resumed(entry: dict[str, Any], cluster: Cluster, whole: Path, last: int = 0) -> dict[str, Any]:
    """Starts all again, and compares the checkpoints (the `last` alone where that is not 0) with
    those of the undisturbed training.
    """
    fresh = cluster._replace(environments=cluster_environments(len(cluster.environments)))
    failures = fresh.runs_to_the_end()
    failures = failures or different_checkpoints(whole, cluster.place / "run", last)
    tell(f"{entry['case']}: {entry}, resumed: {failures or 'equal'}")
    return {
        **entry,
        "equal_after_resuming": not failures,
        "failures": [*entry["failures"], *failures],
    }


def case_of_late(folder: Path, whole: Path, seconds: float) -> dict[str, Any]:
    """Worker 1 starts some seconds after worker 0; the training is the undisturbed one."""
    name = f"worker 1 starts {seconds:.0f} s late"
    cluster = Cluster.of(folder / "late", 2)
    first = cluster.start(0)
    time.sleep(seconds)
    both = [first, cluster.start(1)]
    statuses = [process.ends(time.monotonic() + 300.0) for process in both]
    failures = [last_line(process) for process in both if process.status != 0]
    failures = failures or different_checkpoints(whole, cluster.place / "run")
    tell(f"{name}: {statuses}, {failures or 'equal'}")
    return {"case": name, "failures": failures}


def other_version() -> None:
    """Makes the process one of another version of the package."""
    import ut_tf.run_config
    import ut_tf.version

    ut_tf.version.__version__ = "0.3.9"
    ut_tf.run_config.__version__ = "0.3.9"


def other_data() -> None:
    """Gives the process other examples of the same shapes."""
    from ut_tf import registry

    problem: Any = registry.problems.get("numbered")
    make = problem.examples

    def changed(self: Any, split: str, data_dir: Path, *others: Any, **named: Any) -> Any:
        import dataclasses

        table = make(self, split, data_dir, *others, **named)

        def batch(numbers: Any) -> Any:
            features = table.batch(numbers)
            return {**features, "targets": 1 - features["targets"]}

        return dataclasses.replace(table, batch=batch)

    problem.examples = changed


def case_of_other(
    folder: Path, whole: Path, name: str, before: Before | None, seed: int = 5
) -> dict[str, Any]:
    """Worker 1 differs; both must end with a line, and train when it does not."""
    cluster = Cluster.of(folder / name.replace(" ", "_"), 2)
    began = time.monotonic()
    processes = [cluster.start(0), cluster.start(1, before, seed)]
    outcomes = [outcome_of(process, began) for process in processes]
    entry = judged(f"worker 1 with {name}", outcomes[0], 1)
    entry["line_of_worker_1"] = outcomes[1].line
    return resumed(entry, cluster, whole)


def undisturbed(folder: Path, workers: int) -> Path:
    """The run directory of a training that nobody disturbs."""
    cluster = Cluster.of(folder / f"whole{workers}", workers)
    began = time.monotonic()
    if failures := cluster.runs_to_the_end():
        raise SystemExit("\n".join(failures))
    tell(f"{workers} undisturbed workers: {time.monotonic() - began:.0f} s")
    return cluster.place / "run"


def case_of_terminations(
    folder: Path, generator: random.Random, deadline: float, terminations: int
) -> dict[str, Any]:
    """The scenario of TensorFlow's failure_handler_test: four workers, SIGTERM to a random one at a
    random time, all are started again, until the training ends; every update counts once.
    """
    workers = 4
    whole = undisturbed(folder, workers)
    cluster = Cluster.of(folder / "terminated", workers)
    failures: list[str] = []
    sent = 0
    # Without a single signal nothing would be tested.
    while sent < terminations and not failures and (not sent or time.monotonic() < deadline):
        processes = cluster._replace(environments=cluster_environments(workers)).start_all()
        victim = generator.randrange(workers)
        if not processes[victim].reaches("step", generator.randint(1, 6)):
            break
        time.sleep(generator.uniform(0.0, 0.2))
        began = time.monotonic()
        os.kill(processes[victim].pid, signal.SIGTERM)
        sent += 1
        for number, process in enumerate(processes):
            outcome = outcome_of(process, began)
            if outcome.seconds is None or outcome.status not in (0, 130):
                failures.append(f"worker {number}: {outcome}")
        tell(f"SIGTERM to worker {victim}: all ended after {time.monotonic() - began:.1f} s")
    if not sent:
        failures.append("the training ended before a worker could be sent a signal")
    entry = {"case": "four workers, SIGTERM", "signals": sent, "failures": failures}
    # A checkpoint is saved at each signal, too, so that the earlier ones are others.
    return resumed(entry, cluster, whole, last=1)


def main() -> None:
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--seconds", type=float, default=900.0, help="after which no case begins")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--smoke", action="store_true", help="one worker is killed")
    command.add_argument("--cases", default="", help="parts of the names of cases, with commas")
    command.add_argument("--folder", type=Path, help="keeps all runs there")
    arguments = command.parse_args()
    began, generator = time.monotonic(), random.Random(arguments.seed)
    deadline = began + arguments.seconds
    with folder_of(arguments.folder) as folder:
        load()
        whole = undisturbed(folder, 2)
        cases: dict[str, Callable[[], dict[str, Any]]] = {
            f"{signal.Signals(number).name.lower()} {disturbed}": functools.partial(
                case_of_signal, folder, whole, number, disturbed, generator
            )
            for number in (signal.SIGKILL, signal.SIGSTOP)
            for disturbed in (1, 0)
        }
        cases["late"] = functools.partial(case_of_late, folder, whole, 20.0)
        for name, before in (("another version", other_version), ("other data", other_data)):
            cases[name] = functools.partial(case_of_other, folder, whole, name, before)
        cases["another seed"] = functools.partial(
            case_of_other, folder, whole, "another seed", None, 6
        )
        cases["four"] = functools.partial(case_of_terminations, folder, generator, deadline, 4)
        wanted = "sigkill 1" if arguments.smoke else arguments.cases
        results = [
            case()
            for name, case in cases.items()
            if time.monotonic() < deadline and any(part in name for part in wanted.split(","))
        ]
    report = {"test": "workers", "seed": arguments.seed, "cases": results}
    print(json.dumps({**report, "seconds": round(time.monotonic() - began)}), flush=True)
    os._exit(any(result["failures"] for result in results))


if __name__ == "__main__":
    main()
