"""ut-sweep: trains and evaluates every combination of problems, sets and seeds.

``ut-sweep --problems=babi_qa_task{1..20}_10k --hparams_sets=ut_babi --seeds=1..10 --parallel=2``
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ut_tf.bin import flags, trainer
from ut_tf.bin.command import EXIT_INTERRUPTED, EXIT_USER_ERROR, execute
from ut_tf.bin.flags import Flag, FlagError
from ut_tf.errors import UserError, counted
from ut_tf.evaluation.records import read_records
from ut_tf.reporting.rendering import summary_table
from ut_tf.reporting.runs import find_runs
from ut_tf.reporting.summary import headline, last_records, summarise
from ut_tf.storage.layout import CONFIG_FILE, RECORDS_FILE, SWEEP_LOG_FILE
from ut_tf.storage.locks import held_alone
from ut_tf.sweeping.grid import Cell, Progress, State, expand_names, expand_numbers, make_cells
from ut_tf.sweeping.jobs import COMMAND_MARK, Command, Job, Jobs, Outcome

COMMAND = "ut-sweep"
DESCRIPTION = """ut-sweep: trains and evaluates every combination of problems, sets and seeds, each
in a run directory of its own.

  ut-sweep --problems=babi_qa_task{1..20}_10k --hparams_sets=ut_babi --seeds=1..10 \\
      --output_dir=runs/sweep
  ut-sweep --problems=lte_program,lte_addition --hparams_sets=ut_lte --seeds=1..3 --parallel=2 -- \\
      --train_steps=2000 --hparams=dropout=0.2

What stands after -- are flags of ut-trainer, the same for every run. The same command passes over
what is finished and goes on with what
was stopped; one with more problems, sets or seeds adds to it. Ctrl-C lets every run save a
checkpoint."""

FLAGS = (
    Flag(
        "problems",
        "Names of problems, with commas between; {1..20} and {a,b} stand for each of them. May be"
        " given several times.",
        "What",
        "words",
        required=True,
        aliases=("problem",),
    ),
    Flag(
        "hparams_sets",
        "Names of hyperparameter sets, written likewise.",
        "What",
        "words",
        required=True,
        aliases=("hparams_set",),
    ),
    Flag(
        "seeds",
        "Seeds: numbers and ranges such as 1..10, with commas between.",
        "What",
        "words",
        default=["0"],
        shown_default="0",
    ),
    Flag(
        "trainer_flags",
        "Flags of ut-trainer for every run, after --.",
        "What",
        "words",
        default=[],
        shown_default="none",
        positional=True,
    ),
    Flag(
        "lengths",
        "Lengths that ut-eval judges at.",
        "What",
        default="",
        shown_default="the problem's",
    ),
    Flag(
        "split", "Split that ut-eval judges on.", "What", default="", shown_default="the problem's"
    ),
    Flag(
        "output_dir",
        "Folder that the run directories lie in, <problem>-<set>-seed<k>.",
        "Where",
        default="runs/sweep",
    ),
    Flag(
        "parallel",
        "Runs at a time; each has its share of the processor's cores, and of the GPUs in"
        " CUDA_VISIBLE_DEVICES.",
        "How",
        "integer",
        default=1,
    ),
    Flag("dry_run", "Prints the commands and runs none.", "How", "boolean", default=False),
)
# What ut-sweep itself says to ut-trainer.
_OWN = ("problem", "hparams_set", "random_seed", "output_dir")
_THREADS = ("intra_op_threads", "inter_op_threads")
_PACKAGE_ROOT = Path(__file__).resolve().parent.parent
T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, FLAGS, lambda: _main(flags.command_line(argv)))


def _main(argv: list[str]) -> int:
    sweep = _Sweep.of(_values(argv))
    sweep.check()
    if sweep.dry_run:
        print("\n".join(sweep.described()))
        return 0
    _make_folder(sweep.folder)
    with held_alone(sweep.folder):
        # Read anew: until now another sweep may have written it.
        return _run(replace(sweep, progress=Progress(sweep.folder)))


def _values(argv: list[str]) -> Any:
    with _told_where(trainer.FLAGS, "ut-trainer", "after"):
        return flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)


@contextlib.contextmanager
def _told_where(others: Sequence[Flag], command: str, place: str) -> Iterator[None]:
    """Within the context an unknown flag that belongs on the other side of -- is answered with its
    place.
    """
    try:
        yield
    except FlagError as error:
        unknown = re.match(r"unknown flag --(\w+)", str(error))
        if unknown and unknown[1] in {
            name for flag in others for name in (flag.name, *flag.aliases)
        }:
            raise FlagError(
                f"--{unknown[1]} is a flag of {command}: give it {place} --; see {COMMAND} --help."
            ) from None
        raise


def cells_of(values: Any) -> list[Cell]:
    """Returns the cells that the flags name.

    Raises:
      FlagError: a list or range that cannot be read.
    """
    problems = _expanded(
        "problems",
        values.problems,
        expand_names,
        "names such as babi_qa,lte_{copy,double} or babi_qa_task{1..20}_10k",
    )
    sets = _expanded(
        "hparams_sets", values.hparams_sets, expand_names, "names such as ut_babi,ut_act_babi"
    )
    seeds = _expanded(
        "seeds", values.seeds, expand_numbers, "numbers and ranges such as 1,2 or 1..10"
    )
    return make_cells(problems, sets, seeds)


def _expanded(
    flag: str, words: Sequence[str], expand: Callable[[Sequence[str]], list[T]], expected: str
) -> list[T]:
    try:
        found = expand(words)
    except ValueError as error:
        raise FlagError(f"--{flag}={','.join(words)}: {error}; expected {expected}.") from None
    if not found:
        raise FlagError(f"--{flag} names nothing: expected {expected}.")
    return found


@dataclass(frozen=True)
class _Sweep:
    """What is to be done: the cells, the flags of their commands, and where."""

    folder: Path
    cells: list[Cell]
    trainer_flags: list[str]
    eval_flags: list[str]
    parallel: int
    dry_run: bool
    progress: Progress

    @classmethod
    def of(cls, values: Any) -> _Sweep:
        """Returns what the flags ask for.

        Raises:
          FlagError: a flag that cannot be.
        """
        if values.parallel < 1:
            raise FlagError(f"--parallel={values.parallel}: expected at least 1.")
        flags.integers(values.lengths, "lengths")
        folder = Path(values.output_dir).expanduser()
        eval_flags = [
            f"--{name}={values[name].value}" for name in ("lengths", "split") if values[name].value
        ]
        cells = cells_of(values)
        return cls(
            folder,
            cells,
            values.trainer_flags,
            eval_flags,
            values.parallel,
            values.dry_run,
            Progress(folder),
        )

    def check(self) -> None:
        """Raises what ut-trainer would say of any of the runs: an unknown name, an impossible
        hyperparameter, another run in its place.
        """
        with _told_where(FLAGS, COMMAND, "before"):
            given = flags.parse(
                trainer.COMMAND, trainer.DESCRIPTION, trainer.FLAGS, self.trainer_flags
            )
        for name in _OWN:
            if given[name].present:
                instead = {
                    "random_seed": "--seeds",
                    "output_dir": "--output_dir before the --",
                }.get(name, f"--{name}s")
                raise FlagError(
                    f"--{name} after -- would be the same for every run: give {instead}."
                )
        if (self.folder / CONFIG_FILE).is_file():
            raise UserError(
                f"--output_dir={self.folder} is a run of its own: name a folder that holds runs,"
                " such as its parent."
            )
        for cell in self.cells:
            trainer.checked_run(self.training(cell))

    def place(self, cell: Cell) -> Path:
        """Returns a cell's run directory."""
        return self.folder / cell.name

    def training(self, cell: Cell) -> list[str]:
        """Returns the flags of a cell's ut-trainer."""
        own = (cell.problem, cell.hparams_set, str(cell.seed), str(self.place(cell)))
        return [
            *(f"--{name}={value}" for name, value in zip(_OWN, own, strict=True)),
            *self._thread_flags(),
            *self.trainer_flags,
        ]

    def evaluation(self, cell: Cell) -> list[str]:
        """Returns the flags of a cell's ut-eval."""
        return [f"--output_dir={self.place(cell)}", *self.eval_flags]

    def reached(self, cell: Cell) -> State | None:
        """Returns how far a cell has come; what sweep.json says counts as long as the files are
        there.
        """
        reached = self.progress.reached(cell, self.trainer_flags, self.eval_flags)
        if not (self.place(cell) / CONFIG_FILE).is_file():
            return None
        return (
            "trained"
            if reached == "finished" and not (self.place(cell) / RECORDS_FILE).is_file()
            else reached
        )

    def commands(self, cell: Cell) -> list[tuple[str, str, list[str]]]:
        """Returns (name, module, flags) of the commands that a cell still needs."""
        training = ("ut-trainer", "trainer", self.training(cell))
        evaluation = ("ut-eval", "eval", self.evaluation(cell))
        return {None: [training, evaluation], "trained": [evaluation]}.get(self.reached(cell), [])

    def described(self) -> list[str]:
        """Returns the commands as they would be typed; finished cells as comments."""
        lines = []
        for cell in self.cells:
            commands = self.commands(cell)
            lines += [shlex.join([name, *words]) for name, _, words in commands] or [
                f"# {cell.name} is finished."
            ]
        return lines

    def job(self, cell: Cell) -> Job:
        """Returns the job of a cell that is not finished."""
        commands = (
            Command(name, (sys.executable, "-m", f"ut_tf.bin.{module}", *words))
            for name, module, words in self.commands(cell)
        )
        return Job(cell.name, tuple(commands), self.place(cell) / SWEEP_LOG_FILE)

    def environments(self) -> list[dict[str, str]]:
        """Returns what each of the runs at a time adds to its environment: where ut_tf lies, and
        its share of cores and GPUs.
        """
        path = os.pathsep.join(filter(None, [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]))
        common = {"PYTHONPATH": path} if (_PACKAGE_ROOT / "setup.py").is_file() else {}
        if self.parallel == 1:
            return [common]
        common |= {
            f"TF_NUM_{kind}_THREADS": str(self._threads()) for kind in ("INTRAOP", "INTEROP")
        }
        # Otherwise the first process would take a shared GPU's whole memory.
        common |= {"TF_FORCE_GPU_ALLOW_GROWTH": os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH", "true")}
        gpus = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        shares = [
            gpus[place :: self.parallel] or gpus[place % len(gpus) :][:1] if gpus else []
            for place in range(self.parallel)
        ]
        return [
            {**common, **({"CUDA_VISIBLE_DEVICES": ",".join(share)} if share else {})}
            for share in shares
        ]

    def _threads(self) -> int:
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        return max(1, cores // self.parallel)

    def _thread_flags(self) -> list[str]:
        return [f"--{name}={self._threads()}" for name in _THREADS] if self.parallel > 1 else []


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"--output_dir={folder} cannot be written: {error.strerror or error}; name another"
            " folder."
        ) from error


def _run(sweep: _Sweep) -> int:
    open_cells = {cell.name: cell for cell in sweep.cells if sweep.reached(cell) != "finished"}
    finished = len(sweep.cells) - len(open_cells)
    _say(
        f"{counted(len(sweep.cells), 'run')} in {sweep.folder}, {finished} of them finished before,"
        f" {sweep.parallel} at a time"
    )
    places = {
        name: f"[{number}/{len(open_cells)}] {name}" for number, name in enumerate(open_cells, 1)
    }
    failed: list[str] = []
    with Jobs(
        sweep.parallel, sweep.environments(), lambda job: _say(f"{places[job.name]}: begun")
    ) as jobs:
        for outcome in jobs.run([sweep.job(cell) for cell in open_cells.values()]):
            cell = open_cells[outcome.job.name]
            state = _state(sweep, cell, outcome)
            sweep.progress.note(
                cell, state, sweep.trainer_flags, sweep.eval_flags, outcome.seconds / 60
            )
            _say(f"{places[cell.name]}: {_ending(sweep, cell, state, outcome)}")
            failed += [] if state == "finished" or outcome.stopped else [cell.name]
    _print_summary(sweep.folder)
    if jobs.stopping:
        _say("stopped: the same command goes on from here.")
        return EXIT_INTERRUPTED
    if failed:
        _say(
            f"{counted(len(failed), 'run')} failed: {', '.join(failed)}; the same command tries"
            " again."
        )
        return EXIT_USER_ERROR
    return 0


def _state(sweep: _Sweep, cell: Cell, outcome: Outcome) -> State:
    if outcome.status == 0 and len(outcome.done) == len(outcome.job.commands):
        return "finished"
    if "ut-trainer" in outcome.done or sweep.reached(cell) == "trained":
        return "trained"
    return "stopped" if outcome.stopped else "failed"


def _ending(sweep: _Sweep, cell: Cell, state: State, outcome: Outcome) -> str:
    minutes = f"{outcome.seconds / 60:.1f} min"
    if state == "finished":
        return f"{_headline(sweep.place(cell))}, {minutes}"
    if outcome.stopped:
        return f"stopped after {minutes}"
    return f"failed after {minutes}, {_clause(_reason(outcome))}; its log: {outcome.job.log}"


def _headline(folder: Path) -> str:
    """Returns the figure that ut-eval has just found, or why it cannot be told."""
    try:
        records = read_records(folder)
    except UserError as error:
        return f"evaluated, but {_clause(error)}"
    if not records:
        return f"evaluated, but no record is kept; its log: {folder / SWEEP_LOG_FILE}"
    name = headline(records[-1])
    return f"{name} {records[-1].metrics[name]:.4g}" if name else "evaluated"


def _clause(message: object) -> str:
    """Returns a message without its full stop: the line goes on behind it."""
    return str(message).rstrip(".")


def _reason(outcome: Outcome) -> str:
    """Returns the last line that tells of an error, of what the log has of the last command, or the
    status.
    """
    if outcome.status < 0:
        return f"killed by signal {-outcome.status}"
    text = outcome.job.log.read_text(encoding="utf-8", errors="replace")
    lines = [
        line
        for line in text.rpartition(f"\n{COMMAND_MARK}")[2].splitlines()
        if re.search(r"(Error|Exception)\b|error:", line)
    ]
    return lines[-1].strip() if lines else f"exit status {outcome.status}"


def _print_summary(folder: Path) -> None:
    try:
        runs, warnings = find_runs([folder])
    except UserError:
        return  # Not one of the runs came so far as to write its configuration.
    for warning in warnings:
        _say(f"warning: {warning}")
    rows = summarise(
        (run, record) for run in runs for record in last_records(run) if not record.test_problem
    )
    if rows:
        print(f"\n{summary_table(rows)}\n\nnext: ut-report {shlex.quote(str(folder))}")


def _say(text: str) -> None:
    print(f"{COMMAND}: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
