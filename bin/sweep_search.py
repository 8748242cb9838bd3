"""ut-sweep --search: the flags of a search, and the search that they ask for."""

from collections.abc import Iterable, Sequence
from typing import Any

from ut_tf.argument_types import alternatives
from ut_tf.bin.frame.flags import FlagError
from ut_tf.config.base import Config
from ut_tf.config.fields import types_of
from ut_tf.config.hparams import HParams
from ut_tf.config.part_options import declared, kind_of
from ut_tf.packages import check_package
from ut_tf.run import Run
from ut_tf.sweeping.grid import Cell
from ut_tf.sweeping.search import PRUNERS, Search, Settings, Space
from ut_tf.sweeping.sweep import Sweep


def check_search(values: Any, cells: Sequence[Cell]) -> None:
    """Raises FlagError where the flags of a search do not go together.

    Args:
      values: of the flags.
      cells: that they name without the search.

    Raises:
      UserError: also where Optuna is not installed.
    """
    if not values.search:
        if values.trials is not None:
            raise FlagError(f"--trials={values.trials} is of a search: give --search, too.")
        return
    check_package("optuna", "a search needs")
    if values.trials is None or values.trials < 1:
        given = " is missing" if values.trials is None else f"={values.trials}"
        raise FlagError(f"--trials{given}: expected how many runs the search has, such as 20.")
    if values.pruner not in PRUNERS:
        raise FlagError(f"--pruner={values.pruner}: expected one of {', '.join(PRUNERS)}.")
    if len(cells) != 1:
        raise FlagError(
            f"--search with {len(cells)} combinations: give it one problem, one set and one seed,"
            " without --grid."
        )


def make_search(values: Any, sweep: Sweep, space: Space, runs: Sequence[Run]) -> Search:
    """The search that the flags ask for.

    Args:
      values: of the flags.
      sweep: whose cells are at the bounds of the space.
      space: of the search.
      runs: of these cells.
    """
    (problem, hparams_set, seed), *_ = [
        (cell.problem, cell.hparams_set, cell.seed) for cell in sweep.cells
    ]
    study = {
        "problem": problem,
        "hparams_set": hparams_set,
        "search": values.search,
        "trainer_flags": " ".join(values.trainer_flags),
    }
    settings = Settings(values.trials, seed, values.pruner, values.task, values.tasks, study)
    return Search(
        sweep.folder,
        space,
        fractional(runs[0].hparams, space),
        lambda point: Cell(problem, hparams_set, seed, point),
        settings,
    )


def fractional(hparams: HParams, names: Iterable[str]) -> frozenset[str]:
    """The names of hyperparameters, and of options of parts, that need not be whole numbers."""
    sections = (hparams.network, hparams.training)
    return frozenset(
        name for name in names if any(float in _kinds(section, name) for section in sections)
    )


def _kinds(config: Config, name: str) -> tuple[Any, ...]:
    """The types that a hyperparameter may have; none where the configuration lacks it."""
    field = declared(config).get(name)
    if field is None:
        return ()
    return alternatives(kind_of(field) if "." in name else types_of(type(config))[name])
