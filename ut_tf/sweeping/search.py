"""A search among hyperparameters with Optuna: each trial is a cell, and what is behind is stopped.

::

    space = parse_space("learning_rate=1e-4..1e-2:log,num_steps=2..8,optimizer=adam+muon")
    search = Search(folder, space, cell_of, settings, trials=20, seed=1)
    run_sweep(sweep, say=print, search=search)

Only validation is asked. The study is a file in the sweep's folder, which several processes may
share. A trial depends on the seed, on its number and on the trials that have ended before it.
"""

import contextlib
import json
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ut_tf.config.overrides import parse_assignments
from ut_tf.errors import UserError, counted
from ut_tf.evaluation.validations import judged
from ut_tf.packages import imported
from ut_tf.storage.files import MOST_LINES_BYTES, check_no_link
from ut_tf.storage.layout import METRICS_FILE, STUDY_FILE
from ut_tf.storage.locks import exclusive
from ut_tf.storage.processes import HOPELESS, read_processes, write_processes
from ut_tf.sweeping.grid import Cell, State, expand_grid

_LOCK_FILE = ".study.lock"
_NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(:log)?")
_WHOLE = re.compile(r"-?\d+")
# Of values in names of folders.
_DIGITS = ".4g"
# What reading the file of a study that was damaged or made up may raise.
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, AssertionError)
PRUNERS = ("median", "halving", "none")


@dataclass(frozen=True)
class Range:
    """The values of a hyperparameter between two bounds, both of which are among them.

    Args:
      low, high: as they were written.
      log: whether each power of ten is as likely as the next.
    """

    low: str
    high: str
    log: bool

    @property
    def bounds(self) -> tuple[str, ...]:
        """The values that a check needs to look at."""
        return self.low, self.high

    def suggest(self, trial: Any, name: str, is_float: bool) -> str:
        """The value of a trial; `is_float`: of a hyperparameter that need not be whole."""
        if not is_float and _WHOLE.fullmatch(self.low) and _WHOLE.fullmatch(self.high):
            return str(trial.suggest_int(name, int(self.low), int(self.high), log=self.log))
        value = trial.suggest_float(name, float(self.low), float(self.high), log=self.log)
        return format(value, _DIGITS)


@dataclass(frozen=True)
class Choice:
    """The values of a hyperparameter that are written one by one."""

    bounds: tuple[str, ...]

    def suggest(self, trial: Any, name: str, is_float: bool) -> str:
        """The value of a trial."""
        return str(trial.suggest_categorical(name, self.bounds))


Space = Mapping[str, Range | Choice]


def parse_space(text: str) -> Space:
    """The hyperparameters in "name=low..high,name=low..high:log,name=value+value".

    Raises:
      ValueError: a part is no such assignment, or a range has no values.
    """
    assignments, mistakes = parse_assignments(text)
    if mistakes:
        raise ValueError(mistakes[0])
    return {name: _choices(name, values) for name, values in assignments.items()}


def _choices(name: str, values: str) -> Range | Choice:
    found = _RANGE.fullmatch(values)
    if found is None:
        points = expand_grid(f"{name}={values}")
        return Choice(tuple(point.partition("=")[2] for point in points))
    low, high = float(found[1]), float(found[2])
    if not low < high:
        raise ValueError(f"{name}={values} is no range from a lower to a higher number")
    if found[3] and low <= 0:
        raise ValueError(f"{name}={values} has no logarithm below 0: begin above 0")
    return Range(found[1], found[2], bool(found[3]))


def bounds_of(space: Space) -> list[str]:
    """Points that have every bound and every choice between them."""
    longest = max(len(values.bounds) for values in space.values())
    return [
        ",".join(
            f"{name}={values.bounds[min(number, len(values.bounds) - 1)]}"
            for name, values in space.items()
        )
        for number in range(longest)
    ]


@dataclass(frozen=True)
class Settings:
    """What a search is besides its space.

    Args:
      trials: of all processes together.
      seed: of the trials' values.
      pruner: what stops a trial that is behind: "median" (behind half of the others at the same
        update), "halving" (not among the best quarter at each of a few updates) or "none".
      task, tasks: which of several processes this is.
      study: what must be the same of all processes, by name.
    """

    trials: int
    seed: int
    pruner: str
    task: int
    tasks: int
    study: Mapping[str, Any]


@dataclass
class _Trial:
    """A trial whose cell is being trained.

    Args:
      trial: Optuna's.
      place: its run directory.
      read: bytes of metrics.jsonl that were read.
      told: the last update that Optuna was told of.
    """

    trial: Any
    place: Path
    read: int = 0
    told: int = 0


class Search:
    """The trials of a study, as cells.

    Args:
      folder: of the sweep.
      space: its hyperparameters.
      floats: those of them that need not be whole.
      cell_of: the cell of a point.
      settings: of the search.

    Raises:
      UserError: Optuna is not installed, or the folder's study is another one or damaged.
    """

    def __init__(
        self,
        folder: Path,
        space: Space,
        floats: frozenset[str],
        cell_of: Callable[[str], Cell],
        settings: Settings,
    ) -> None:
        self._optuna = imported("optuna", "a search needs")
        self._folder = folder
        self._space = space
        self._floats = floats
        self._cell_of = cell_of
        self._settings = settings
        self._running: dict[str, _Trial] = {}
        self._study = self._open()
        with self._alone():
            self._take_up()

    @property
    def trials(self) -> int:
        """Of all processes together."""
        return self._settings.trials

    def cells(self) -> Iterator[tuple[int, Cell]]:
        """Yields the cell of each next trial of this process, with its number from 1."""
        while (found := self._next()) is not None:
            number, trial, cell = found
            self._running[cell.name] = _Trial(trial, self._folder / cell.name)
            yield number, cell

    def is_behind(self, cell: Cell) -> bool:
        """Whether a cell that is being trained is to be stopped, by its validations so far."""
        running = self._running[cell.name]
        metrics = running.place / METRICS_FILE
        size = metrics.stat().st_size if metrics.is_file() else 0
        if size == running.read:
            return False
        running.read = size
        for step, value in _curve(running.place):
            if step > running.told:
                running.told = step
                running.trial.report(value, step)
        return bool(running.trial.should_prune())

    def end(self, cell: Cell, state: State) -> None:
        """Takes in how a cell ended. Of one that a signal stopped nothing is told: the same process
        in another call goes on with it.
        """
        running = self._running.pop(cell.name)
        states = self._optuna.trial.TrialState
        if state == "pruned":
            _mark_behind(running.place)
            self._study.tell(running.trial, state=states.PRUNED)
        elif state == "finished" and (curve := _curve(running.place)):
            self._study.tell(running.trial, min(value for _, value in curve))
        else:
            self._study.tell(running.trial, state=states.FAIL)

    def best(self) -> str:
        """The best trial by validation, and how the others ended; empty: none has ended well."""
        trials = self._study.get_trials(deepcopy=False)
        states = [trial.state.name for trial in trials]
        if "COMPLETE" not in states:
            return ""
        best = self._study.best_trial
        point = best.user_attrs["point"]
        metric, sign = _selection(self._folder / self._cell_of(point).name)
        return (
            f"best of {counted(_count(trials), 'trial')} by validation: {point} with {metric}"
            f" {sign * best.value:.4g}; {states.count('PRUNED')} stopped early"
        )

    def _open(self) -> Any:
        """The study in the folder, a new one where there is none."""
        optuna = self._optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        path = self._folder / STUDY_FILE
        with warnings.catch_warnings(), self._alone():
            # The file's format is called experimental in some versions.
            warnings.simplefilter("ignore")
            try:
                check_no_link(path)
                if path.exists() and path.stat().st_size > MOST_LINES_BYTES:
                    raise ValueError(f"more than {MOST_LINES_BYTES} bytes")
                backend = optuna.storages.journal.JournalFileBackend(str(path))
                study = optuna.create_study(
                    storage=optuna.storages.JournalStorage(backend),
                    study_name="ut-sweep",
                    load_if_exists=True,
                    pruner=_pruner(optuna, self._settings.pruner),
                )
            except _DAMAGE as error:
                raise UserError(
                    f"{path} is no study of this sweep ({type(error).__name__}: {error}): restore"
                    " it, or give another `output_dir`."
                ) from error
            wanted = json.loads(json.dumps(dict(self._settings.study)))
            stored = study.user_attrs.get("of", wanted)
            for name, value in wanted.items():
                if stored.get(name) != value:
                    raise UserError(
                        f"`{name}`={value}: {path} is a search with {stored.get(name)}: give the"
                        " same, or another `output_dir`."
                    )
            study.set_user_attr("of", wanted)
        return study

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """A context in which no other process takes a trial."""
        with contextlib.ExitStack() as stack:
            # Some networks have no locks.
            with contextlib.suppress(OSError):
                stack.enter_context(exclusive(self._folder / _LOCK_FILE))
            yield

    def _take_up(self) -> None:
        """Gives back the trials that this process has left when it ended last."""
        states = self._optuna.trial.TrialState
        for trial in self._study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            # Without other tasks, those of all.
            if self._settings.tasks == 1 or trial.user_attrs.get("task") == self._settings.task:
                self._study.enqueue_trial(trial.params, {"goes_on": trial.number})
                self._study.tell(trial.number, state=states.FAIL)

    def _next(self) -> tuple[int, Any, Cell] | None:
        states = self._optuna.trial.TrialState
        with self._alone():
            while True:
                before = self._study.get_trials(deepcopy=False)
                waits = any(trial.state == states.WAITING for trial in before)
                if not waits and _count(before) >= self._settings.trials:
                    return None
                trial = self._study.ask()
                trial.set_user_attr("task", self._settings.task)
                # Of its own for each trial: a search that goes on finds no value twice.
                self._study.sampler = _sampler(self._optuna, self._settings.seed, trial.number)
                point = self._point(trial)
                trial.set_user_attr("point", point)
                alike = [
                    other
                    for other in before
                    if other.user_attrs.get("point") == point
                    and other.state in (states.COMPLETE, states.PRUNED, states.RUNNING)
                ]
                if not alike:
                    return (
                        _count(self._study.get_trials(deepcopy=False)),
                        trial,
                        self._cell_of(point),
                    )
                self._repeat(trial, alike[0])

    def _point(self, trial: Any) -> str:
        return ",".join(
            f"{name}={values.suggest(trial, name, name in self._floats)}"
            for name, values in self._space.items()
        )

    def _repeat(self, trial: Any, other: Any) -> None:
        """Ends a trial whose values another has, as that one did."""
        states = self._optuna.trial.TrialState
        if other.state == states.COMPLETE:
            self._study.tell(trial, other.value)
        else:
            self._study.tell(trial, state=states.PRUNED)


def _sampler(optuna: Any, seed: int, number: int) -> Any:
    """What chooses the values of a trial by those of others."""
    with warnings.catch_warnings():
        # Versions before 5 call `constant_liar` experimental.
        warnings.simplefilter("ignore")
        return optuna.samplers.TPESampler(
            seed=random.Random(f"{seed} {number}").getrandbits(32), constant_liar=True
        )


def _count(trials: Sequence[Any]) -> int:
    """The number of trials, of which one that goes on with another's is none."""
    return sum("goes_on" not in trial.user_attrs for trial in trials)


def _pruner(optuna: Any, name: str) -> Any:
    pruners = optuna.pruners
    return {
        "median": pruners.MedianPruner,
        "halving": pruners.SuccessiveHalvingPruner,
        "none": pruners.NopPruner,
    }[name]()


def _selection(place: Path) -> tuple[str, float]:
    """The metric that chooses a run's checkpoints, and the sign with which lower is better; the
    metric is empty where the run does not say.
    """
    chosen = [process.selection for process in read_processes(place) if process.selection]
    if not chosen:
        return "", 1.0
    return chosen[-1]["metric"], -1.0 if chosen[-1]["direction"] == "max" else 1.0


def _curve(place: Path) -> list[tuple[int, float]]:
    """The validations of a run, (step, value), the lower the better."""
    metric, sign = _selection(place)
    return [(step, sign * value) for step, value in judged(place / METRICS_FILE, metric)]


def _mark_behind(place: Path) -> None:
    """Notes in a run directory that a sweep trains it no further, so it never becomes a result."""
    processes = read_processes(place)
    if processes:
        write_processes(place, [*processes[:-1], replace(processes[-1], ended=HOPELESS)])
