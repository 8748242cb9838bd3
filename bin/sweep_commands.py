"""The commands of a sweep's cells: ut-trainer and ut-eval with their flags."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ut_tf.bin.frame.declarations import shared
from ut_tf.bin.frame.flags import Flag
from ut_tf.sweeping.grid import Cell
from ut_tf.sweeping.jobs import Command

# The flags of ut-trainer that a sweep sets itself.
OWN_FLAGS = ("problem", "hparams_set", "random_seed", "output_dir")
_THREADS = ("intra_op_threads", "inter_op_threads")


@dataclass(frozen=True)
class CellCommands:
    """``ut_tf.sweeping.sweep.Commands`` in the words of this package.

    Args:
      training_options: flags of ut-trainer, the same for every cell.
      evaluation_options: flags of ut-eval likewise.
    """

    training_options: list[str]
    evaluation_options: list[str]

    def training(self, cell: Cell, place: Path, threads: int | None) -> Command:
        """The cell's ut-trainer, with its share of the cores where there is one."""
        theirs, others = split_words(self.training_options, shared("hparams"))
        assignments = [cell.point, *(word.removeprefix("--hparams=") for word in theirs)]
        own = (cell.problem, cell.hparams_set, str(cell.seed), str(place))
        flags = [
            *map(_flag, OWN_FLAGS, own),
            *(_flag(name, threads) for name in _THREADS if threads is not None),
            *([_flag("hparams", ",".join(filter(None, assignments)))] if cell.point else theirs),
            *others,
        ]
        return _command("ut-trainer", "trainer", flags)

    def evaluation(self, place: Path) -> Command:
        """The ut-eval of the run in `place`."""
        flags = [_flag("output_dir", place), *self.evaluation_options]
        return _command("ut-eval", "eval", flags)


def _command(name: str, module: str, flags: list[str]) -> Command:
    return Command(name, (sys.executable, "-m", f"ut_tf.bin.{module}"), tuple(flags))


def _flag(name: str, value: object) -> str:
    return f"--{name}={value}"


def split_words(words: Sequence[str], flags: Sequence[Flag]) -> tuple[list[str], list[str]]:
    """The words of a command line that give some flags, each as --name=value, and the others."""
    named = {f"--{name}": flag.name for flag in flags for name in (flag.name, *flag.aliases)}
    own: list[str] = []
    others: list[str] = []
    waiting = iter(words)
    for word in waiting:
        flag, equals, value = word.partition("=")
        if flag in named:
            own.append(_flag(named[flag], value if equals else next(waiting, "")))
        else:
            others.append(word)
    return own, others
