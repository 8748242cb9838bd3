"""Trains and evaluates runs of results/ again, by their own commands, and compares the figures.

How it is used::

    make reproduce                            # a cheap run of each table, within 30 minutes
    python benchmarks/reproduce.py --dry_run  # what that would be
    python benchmarks/reproduce.py --rows='lengths/*copy*' --minutes=10
    python benchmarks/reproduce.py --rows=babi_10k_single --tmp_dir=downloads

The same command goes on where it stopped. A figure is "within" where it lies in the stored 95 %
interval, "within the seeds" where only in what the intervals of the stored seeds span,
"overlapping" where its own interval meets the stored one, and "apart" otherwise; then the exit
status is 1. Without a stored interval the two figures are printed alone. Another processor or
number of threads sums in another order: a seed then gives another figure, as another seed does.
"""

import argparse
import hashlib
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ut_tf import registry  # noqa: E402
from ut_tf.data.arguments import as_assignments  # noqa: E402
from ut_tf.evaluation.records import Record, read_records  # noqa: E402
from ut_tf.sweeping.jobs import Command, Job, Jobs  # noqa: E402
from ut_tf.tables.record import ResultRecord  # noqa: E402
from ut_tf.tables.record import read_records as read_results  # noqa: E402

FOLDER = ROOT / "build" / "reproduce"
MODULES = {"ut-trainer": "ut_tf.bin.trainer", "ut-eval": "ut_tf.bin.eval"}
# Loading TensorFlow, tracing and evaluating, beside the minutes that are stored.
OVERHEAD_MINUTES = 0.7
UNKNOWN_MINUTES = 10_000.0


@dataclass(frozen=True)
class StoredRun:
    """The records of a run in a table.

    Args:
      name: "<table>/<problem>-<set>-seed<k>", with a "-<digest>" where several runs share it.
      records: its figures.
    """

    name: str
    records: tuple[ResultRecord, ...]

    @property
    def minutes(self) -> float:
        """The minutes that training it again should take."""
        told = (record.total_minutes or record.minutes for record in self.records)
        known = [minutes for minutes in told if minutes is not None]
        return max(known, default=UNKNOWN_MINUTES) + OVERHEAD_MINUTES

    @property
    def evaluations(self) -> list[str]:
        """The commands that measure its figures."""
        commands = dict.fromkeys(record.evaluation or "" for record in self.records)
        return [text for text in commands if text.startswith("ut-eval --output_dir=")]

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        record = self.records[0]
        return FOLDER / f"{_name(record)}-{_digest(record)}"


def stored_runs(files: Iterable[Path]) -> list[StoredRun]:
    """The runs that can be trained again: those with commands of ut-trainer and ut-eval, and
    without files of somebody's own.
    """
    groups: dict[tuple[object, ...], list[ResultRecord]] = {}
    for record in read_results(files):
        groups.setdefault((record.table, *record.run_key), []).append(record)
    shared = Counter(_name(records[0]) for records in groups.values())
    runs = [StoredRun(_own_name(records[0], shared), tuple(records)) for records in groups.values()]
    return [run for run in runs if run.evaluations and _is_trainable(run.records[0])]


def _name(record: ResultRecord) -> str:
    return f"{record.table}/{record.problem}-{record.hparams_set}-seed{record.seed}"


def _own_name(record: ResultRecord, shared: Mapping[str, int]) -> str:
    name = _name(record)
    return name if shared[name] == 1 else f"{name}-{_digest(record)}"


def _digest(record: ResultRecord) -> str:
    return hashlib.sha256(repr(record.run_key).encode()).hexdigest()[:8]


def _is_trainable(record: ResultRecord) -> bool:
    declared = registry.problems.file_arguments(record.problem)
    own_files = any(
        value is not None and (name in declared or name.endswith("_files"))
        for name, value in record.problem_args.items()
    )
    needs_files = "source_files" in declared or own_files
    command = record.command or "--warm_start_from"
    return "--warm_start_from" not in command and not needs_files


def choose(runs: Sequence[StoredRun], rows: Sequence[str], minutes: float) -> list[StoredRun]:
    """The runs that the patterns name, all of them; without patterns the one of each table that
    takes least, as many as fit into the minutes, the shortest first.
    """
    if rows:
        return [
            run
            for run in runs
            if any(fnmatchcase(run.name, row) or run.name.startswith(f"{row}/") for row in rows)
        ]
    cheapest: dict[str, StoredRun] = {}
    for run in sorted(runs, key=lambda run: run.minutes):
        cheapest.setdefault(run.records[0].table, run)
    taken: list[StoredRun] = []
    for run in cheapest.values():
        if sum(other.minutes for other in taken) + run.minutes <= minutes:
            taken.append(run)
    return taken


def job_of(run: StoredRun, options: Sequence[str]) -> Job:
    """The commands of a run, in its folder below build/; what was evaluated is not again."""
    commands = [str(run.records[0].command)]
    done = _measured(run)
    commands += [
        text
        for text in run.evaluations
        if any(
            record.evaluation == text and (record.metric, record.test_problem) not in done
            for record in run.records
        )
    ]
    if len(commands) == 1:
        commands = []
    earlier = _earlier_arguments(run.records[0])
    steps = tuple(_command(text, run.folder, options, earlier) for text in commands)
    return Job(run.name, steps, run.folder / "reproduce.log")


def _earlier_arguments(record: ResultRecord) -> str:
    """The arguments by which a problem makes the data that a run of version 0.4 was trained on."""
    if record.data_version > 1:
        return ""
    factory = registry.problems.get(record.problem)
    earlier = getattr(getattr(factory, "func", factory), "earlier_arguments", {})
    return as_assignments({**earlier, **record.problem_args}) if earlier else ""


def _command(text: str, folder: Path, options: Sequence[str], arguments: str) -> Command:
    name, *words = shlex.split(text)
    replaced = ("--output_dir=", "--problem_args=") if arguments else ("--output_dir=",)
    flags = [word for word in words if not word.startswith(replaced)]
    if arguments and name == "ut-trainer":
        flags.append(f"--problem_args={arguments}")
    flags += [f"--output_dir={folder}", *options]
    return Command(name, (sys.executable, "-m", MODULES[name]), tuple(flags))


def _measured(run: StoredRun) -> dict[tuple[str, str], Record]:
    """The evaluations of a run that was trained again, by metric and problem."""
    return {
        (metric, record.test_problem): record
        for record in read_records(run.folder)
        for metric in record.metrics
    }


def spans(runs: Iterable[StoredRun]) -> dict[tuple[object, ...], tuple[float, float]]:
    """The lowest and the highest bound of the stored intervals of each figure's seeds."""
    found: dict[tuple[object, ...], tuple[float, float]] = {}
    for record in (record for run in runs for record in run.records):
        low, high = record.interval or (record.value, record.value)
        earlier = found.get(_figure(record), (low, high))
        found[_figure(record)] = (min(low, earlier[0]), max(high, earlier[1]))
    return found


def _figure(record: ResultRecord) -> tuple[object, ...]:
    """What the seeds of a figure have in common."""
    data = (record.problem, record.data_version, record.test_problem)
    return (*record.recipe_key, *data, record.table, record.metric)


def compare(
    run: StoredRun, seeds: Mapping[tuple[object, ...], tuple[float, float]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yields a metric, the stored figure, the new one, and the verdict; `seeds` is of ``spans``."""
    measured = _measured(run)
    for record in run.records:
        again = measured.get((record.metric, record.test_problem))
        if again is None:
            yield record.metric, _text(record.value, record.interval), "", "not measured"
            continue
        value, interval = again.metrics[record.metric], again.intervals.get(record.metric)
        yield (
            record.metric,
            _text(record.value, record.interval),
            _text(value, interval),
            verdict(record, value, interval, seeds[_figure(record)]),
        )


def verdict(
    record: ResultRecord,
    value: float,
    interval: tuple[float, float] | None,
    seeds: tuple[float, float],
) -> str:
    """The verdict of a new figure on the stored one, and on the span of its seeds."""
    if record.interval is None:
        return "no interval"
    low, high = record.interval
    if low <= value <= high:
        return "within"
    if seeds[0] <= value <= seeds[1]:
        return "within the seeds"
    again = interval or (value, value)
    return "overlapping" if again[0] <= high and low <= again[1] else "apart"


def _text(value: float, interval: tuple[float, float] | None) -> str:
    bounds = f" [{interval[0]:.4g}, {interval[1]:.4g}]" if interval else ""
    return f"{value:.4g}{bounds}"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags' values."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", default=str(ROOT / "results"), help="folder of the records")
    parser.add_argument("--rows", default="", help="tables or <table>/<run>, with commas and *")
    parser.add_argument("--minutes", type=float, default=30.0, help="for all, without --rows")
    parser.add_argument("--parallel", type=int, default=2, help="runs at a time")
    parser.add_argument("--data_dir", default="", help="folder of prepared data")
    parser.add_argument("--tmp_dir", default="", help="folder of downloaded archives")
    parser.add_argument("--dry_run", action="store_true", help="prints what would be run")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script and returns its exit status."""
    flags = parse(argv)
    runs = stored_runs(sorted(Path(flags.results).glob("*.jsonl")))
    rows = [row.strip() for row in flags.rows.split(",") if row.strip()]
    taken = choose(runs, rows, flags.minutes)
    if not taken:
        raise SystemExit(f"--rows={flags.rows}: no run has such a name; see --dry_run for names.")
    expected = sum(run.minutes for run in taken)
    print(f"{len(taken)} of {len(runs)} runs, about {expected:.0f} min one after the other")
    tables = dict.fromkeys(run.records[0].table for run in runs)
    left_out = [name for name in tables if all(run.records[0].table != name for run in taken)]
    if left_out and not rows:
        print(f"too long for {flags.minutes:.0f} min: {', '.join(left_out)}")
    if flags.dry_run:
        for run in taken:
            print(f"{run.name}, about {run.minutes:.1f} min\n  {run.records[0].command}")
        return 0
    options = [f"--{name}={getattr(flags, name)}" for name in ("data_dir", "tmp_dir")]
    failed = train_again(taken, [text for text in options if not text.endswith("=")], flags)
    return report(taken, failed, spans(runs))


def train_again(
    runs: Sequence[StoredRun], options: Sequence[str], flags: argparse.Namespace
) -> list[str]:
    """Trains and evaluates what is not done, the longest first; returns the names that failed."""
    jobs = {run.name: job_of(run, options) for run in runs}
    left = {run.name: run.minutes for run in runs if jobs[run.name].commands}
    order = sorted(left, key=lambda name: -left[name])
    began = time.monotonic()
    threads = {"PYTHONPATH": str(ROOT)}
    if flags.parallel > 1:
        threads |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    total, failed = sum(left.values()), []

    def begun(job: Job) -> None:
        done = total - sum(left.values())
        pace = (time.monotonic() - began) / 60 / done if done else 1 / flags.parallel
        print(f"{job.name}: begun, about {sum(left.values()) * pace:.0f} min left", flush=True)

    with Jobs(flags.parallel, [threads] * flags.parallel, begun) as running:
        for outcome in running.run(jobs[name] for name in order):
            name = outcome.job.name
            del left[name]
            if outcome.status != 0 or outcome.stopped:
                failed.append(name)
                how = "stopped" if outcome.stopped else f"failed, see {outcome.job.log}"
                print(f"{name}: {how}", flush=True)
    return failed


def report(
    runs: Sequence[StoredRun],
    failed: Sequence[str],
    seeds: Mapping[tuple[object, ...], tuple[float, float]],
) -> int:
    """Prints the figures side by side, and a line of JSON; returns the exit status."""
    verdicts: dict[str, int] = {}
    for run in runs:
        if run.name in failed:
            continue
        print(run.name)
        for metric, stored, again, told in compare(run, seeds):
            print(f"  {metric:<32} stored {stored:<26} again {again:<26} {told}")
            verdicts[told] = verdicts.get(told, 0) + 1
    print(json.dumps({"figures": verdicts, "failed": list(failed)}))
    return 1 if failed or verdicts.get("apart") or verdicts.get("not measured") else 0


if __name__ == "__main__":
    sys.exit(main())
