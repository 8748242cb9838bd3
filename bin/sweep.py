"""ut-sweep: trains and evaluates every combination of problems, sets, hyperparameters and seeds.

``ut-sweep --problems=babi_qa_task{1..20}_10k --hparams_sets=ut_babi --seeds=1..10 --parallel=2``
"""

import contextlib
import dataclasses
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ut_tf.bin import trainer_flags
from ut_tf.bin.entry import EXIT_INTERRUPTED
from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import EXIT_USER_ERROR, entry_point, tell
from ut_tf.bin.frame.declarations import declaration, shared
from ut_tf.bin.frame.flags import Flag, FlagError
from ut_tf.bin.sweep_commands import OWN_FLAGS, CellCommands, split_words
from ut_tf.bin.sweep_search import check_search, make_search
from ut_tf.bin.trainer_flags import checked_run
from ut_tf.config.overrides import parse_assignments
from ut_tf.errors import UserError, counted
from ut_tf.notices import warn
from ut_tf.paths import expanded
from ut_tf.run import Run
from ut_tf.storage.folders import make_writable
from ut_tf.storage.layout import CONFIG_FILE
from ut_tf.storage.locks import held_alone, is_held
from ut_tf.sweeping.grid import Cell, expand_names, expand_numbers, expand_points, make_cells
from ut_tf.sweeping.search import Space, bounds_of, parse_space
from ut_tf.sweeping.sweep import Sweep, SweepResult, run_sweep, summary
from ut_tf.tables.runs import NOT_THE_RECIPE

COMMAND, DESCRIPTION, FLAGS = declaration("sweep")

T = TypeVar("T")
_TASKS_FOLDER = ".tasks"


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> int:
    """Runs the command, given the words of its command line."""
    values = _values(argv)
    sweep = _sweep(values)
    runs = _check(sweep)
    if values.search and not values.dry_run:
        return _search(values, sweep, runs)
    sweep = dataclasses.replace(sweep, cells=sweep.cells[values.task :: values.tasks])
    if values.dry_run:
        print("\n".join(sweep.described()))
        return 0
    make_writable(sweep.folder)
    with _held_alone(sweep.folder, values.task, values.tasks):
        sweep.progress.read()
        return _told(sweep, run_sweep(sweep, _say))


def _search(values: Any, sweep: Sweep, runs: Sequence[Run]) -> int:
    make_writable(sweep.folder)
    with _held_alone(sweep.folder, values.task, values.tasks):
        search = make_search(values, sweep, _space([values.search]), runs)
        sweep = dataclasses.replace(sweep, cells=[])
        status = _told(sweep, run_sweep(sweep, _say, search))
        if best := search.best():
            print(best)
        return status


@contextlib.contextmanager
def _held_alone(folder: Path, task: int, tasks: int) -> Iterator[None]:
    """Holds the lock of a task within the context: nobody else does its runs."""
    locks = folder / _TASKS_FOLDER
    own = locks / f"{task}-of-{tasks}" if tasks > 1 else folder
    beside = {locks / f"{other}-of-{tasks}" for other in range(tasks)}
    own.mkdir(parents=True, exist_ok=True)
    with held_alone(own):
        for other in {folder, *locks.glob("*-of-*")} - beside - {own}:
            if is_held(other):
                raise UserError(
                    f"another ut-sweep works on {folder} with other --tasks: wait until it ends, or"
                    " give all of them the same --tasks."
                )
        yield


def _values(argv: list[str]) -> Any:
    with _told_where(trainer_flags.FLAGS, "ut-trainer", "after"):
        return flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)


@contextlib.contextmanager
def _told_where(others: Sequence[Flag], command: str, place: str) -> Iterator[None]:
    """Within the context, answers an unknown flag from the other side of -- with its place."""
    try:
        yield
    except FlagError as error:
        unknown = re.match(r"unknown flag --(\w+)", str(error))
        name = unknown[1] if unknown else ""
        if name in {name for flag in others for name in (flag.name, *flag.aliases)}:
            raise FlagError(
                f"--{name} is a flag of {command}: give it {place} --; see {COMMAND} --help."
            ) from None
        raise


def cells_of(values: Any) -> list[Cell]:
    """The cells that the flags name.

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
    points = _expanded("grid", [values.grid], _points, "a list like dropout=0.1+0.3,num_steps=4+8")
    cells = make_cells(problems, sets, seeds, points)
    check_search(values, cells)
    if not values.search:
        return cells
    space = _expanded(
        "search", [values.search], _space, "a list like learning_rate=1e-4..1e-2:log,dropout=0..0.3"
    )
    return make_cells(problems, sets, seeds, bounds_of(space))


def _points(words: Sequence[str]) -> list[str]:
    points = expand_points(words[0])
    for point in points:
        _check_rows(parse_assignments(point)[0])
    return points


def _space(words: Sequence[str]) -> Space:
    space = parse_space(words[0])
    _check_rows(space)
    return space


def _check_rows(names: Iterable[str]) -> None:
    for name in names:
        if name in NOT_THE_RECIPE:
            raise ValueError(
                f"{name} is the same for a row of the table: give it after --, and each value an"
                " --output_dir of its own"
            )


def _expanded(
    flag: str, words: Sequence[str], expand: Callable[[Sequence[str]], T], expected: str
) -> T:
    try:
        items = expand(words)
    except ValueError as error:
        raise FlagError(f"--{flag}={','.join(words)}: {error}; expected {expected}.") from None
    if not items:
        raise FlagError(f"--{flag} names nothing: expected {expected}.")
    return items


def _sweep(values: Any) -> Sweep:
    if values.parallel < 1:
        raise FlagError(f"--parallel={values.parallel}: expected at least 1.")
    if not 0 <= values.task < values.tasks:
        raise FlagError(
            f"--task={values.task} with --tasks={values.tasks}: expected a number from 0 to --tasks"
            " less 1."
        )
    flags.integers(values.lengths, "lengths")
    evaluation_options = [
        f"--{name}={values[name].value}" for name in ("lengths", "split") if values[name].value
    ]
    # Of ut-trainer's flags the folder of code, which ut-eval needs, too.
    code, _ = split_words(values.trainer_flags, shared("usr_dir"))
    return Sweep(
        expanded(values.output_dir),
        cells_of(values),
        CellCommands(values.trainer_flags, [*evaluation_options, *code]),
        values.parallel,
    )


def _check(sweep: Sweep) -> list[Run]:
    """Raises what ut-trainer would say of any of the runs, and warns of what it would warn of.

    That is an unknown name, an impossible hyperparameter, or another run in its place. Returns the
    runs.
    """
    with _told_where(FLAGS, COMMAND, "before"):
        given = flags.parse(
            trainer_flags.COMMAND,
            trainer_flags.DESCRIPTION,
            trainer_flags.FLAGS,
            sweep.commands.training_options,
        )
    for name in OWN_FLAGS:
        if given[name].present:
            instead = {"random_seed": "--seeds", "output_dir": "--output_dir before the --"}.get(
                name, f"--{name}s"
            )
            raise FlagError(f"--{name} after -- would be the same for every run: give {instead}.")
    if (sweep.folder / CONFIG_FILE).is_file():
        raise UserError(
            f"`output_dir`={sweep.folder} is a run of its own: name a folder that holds runs, such"
            " as its parent."
        )
    runs = [checked_run(sweep.training(cell).arguments) for cell in sweep.cells]
    for note in dict.fromkeys(note for run in runs for note in run.notes):
        warn(note)
    return runs


def _told(sweep: Sweep, result: SweepResult) -> int:
    """Prints how a sweep ended; returns the exit status."""
    table = summary(sweep.folder, _say)
    if table:
        print(f"\n{table}\n\nnext: ut-report {shlex.quote(str(sweep.folder))}")
    if result.stopped:
        _say("stopped: the same command goes on from here.")
        return EXIT_INTERRUPTED
    if result.failed:
        _say(
            f"{counted(len(result.failed), 'run')} failed: {', '.join(result.failed)}; the same"
            " command tries again, or of a search others with more --trials."
        )
        return EXIT_USER_ERROR
    return 0


def _say(text: str) -> None:
    tell(COMMAND, text)


if __name__ == "__main__":
    sys.exit(main())
