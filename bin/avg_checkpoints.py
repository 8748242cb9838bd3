"""ut-avg-checkpoints: writes a run directory whose weights are the mean of a run's last checkpoints.

``ut-avg-checkpoints --output_dir=runs/babi_qa-ut_base --n=5``
"""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ut_tf.bin import flags
from ut_tf.bin.command import execute, import_tensorflow
from ut_tf.bin.flags import Flag, FlagError
from ut_tf.run import Run

COMMAND = "ut-avg-checkpoints"
DESCRIPTION = """ut-avg-checkpoints: writes a run directory whose weights are the mean of a run's last checkpoints.

  ut-avg-checkpoints --output_dir=runs/babi_qa-ut_base --n=5
  ut-eval --output_dir=runs/babi_qa-ut_base-avg5 --checkpoint=last

Checkpoints must be there to be averaged: a run keeps its latest 5, or --keep_checkpoint_max of them."""

MOST = 8
FLAGS = (
    Flag("n", "Latest checkpoints to average.", "What", "integer", shown_default=f"all there are, at most {MOST}"),
    Flag("output_dir", "The run directory whose checkpoints are averaged.", "Where", shown_default="needed"),
    Flag("avg_dir", "Where the averaged run is written.", "Where", shown_default="<output_dir>-avg<n>"),
    Flag(
        "model_dir",
        "The run directory, as tensor2tensor names it; --output_dir is then where the average is written.",
        "Where",
        shown_default="none",
    ),
    flags.RUN_USR_DIR,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, lambda: _main(flags.command_line(argv)))


def _main(argv: list[str]) -> None:
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.n is not None and values.n < 1:
        raise FlagError(f"--n={values.n}: expected at least 1.")
    source, named = _folders(values)
    run = Run.load(source, usr_dir=values.usr_dir)
    import_tensorflow()
    from ut_tf.training.averaging import average_checkpoints

    n = values.n or _intact(run)
    destination = named or source.with_name(f"{source.name}-avg{n}")
    average_checkpoints(run, n, destination)
    print(f"next: ut-eval --output_dir={shlex.quote(str(destination))} --checkpoint=last")


def _intact(run: Run) -> int:
    """Returns how many checkpoints there are to average, from 1 (also where there is none, which averaging then tells) to MOST."""
    from ut_tf.training.checkpoints import CheckpointStore, find_fault

    store = CheckpointStore(run.output_dir)
    intact = (step for step in reversed(store.steps()) if find_fault(store.path(step)) is None)
    return max(1, len(list(itertools.islice(intact, MOST))))


def _folders(values: Any) -> tuple[Path, Path | None]:
    """Returns the run's directory and the average's; None where that is named by the number of checkpoints."""
    if values.model_dir and values.output_dir and values.avg_dir:
        raise FlagError("--model_dir names the run and --output_dir the average: leave --avg_dir out.")
    source = values.model_dir or values.output_dir
    if not source:
        raise FlagError(f"--output_dir is missing: the run directory whose checkpoints are averaged. See {COMMAND} --help.")
    destination = values.avg_dir or (values.output_dir if values.model_dir else None)
    source_path = Path(source).expanduser().absolute()
    destination_path = Path(destination).expanduser().absolute() if destination else None
    if source_path == destination_path:
        raise FlagError(f"--avg_dir={destination}: the average needs a directory of its own, beside the run's.")
    return source_path, destination_path


if __name__ == "__main__":
    sys.exit(main())
