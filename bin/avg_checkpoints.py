"""ut-avg-checkpoints: writes a run directory whose weights are the mean of several of a run's
checkpoints.

``ut-avg-checkpoints --output_dir=runs/babi_qa-ut_base --n=5``
"""

import sys
from pathlib import Path
from typing import Any

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point, import_tensorflow
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flag_values import check_choice, default_destination, with_chosen_steps
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import evaluation_line
from ut_tf.paths import absolute
from ut_tf.run import Run
from ut_tf.storage.find_checkpoint import check_checkpoint

COMMAND, DESCRIPTION, FLAGS = declaration("avg_checkpoints")


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    check_choice(values)
    source, named = _folders(values)
    run = Run.load(source, usr_dir=values.usr_dir)
    check_checkpoint(run.output_dir, "last")
    import_tensorflow()
    from ut_tf.training.averaging import average_checkpoints

    def average(steps: list[int]) -> Path:
        destination = named or default_destination(source, values, steps)
        average_checkpoints(run, steps, destination)
        return destination

    steps, destination = with_chosen_steps(run, values, average)
    print(f"the mean of the checkpoints of steps {', '.join(map(str, steps))} is in {destination}")
    print(f"next: {evaluation_line(str(destination), values.usr_dir, '--checkpoint=last')}")


def _folders(values: Any) -> tuple[Path, Path | None]:
    """The run's directory and the average's; None where that is named after the choice."""
    if values.model_dir and values.output_dir and values.avg_dir:
        raise FlagError(
            "--model_dir names the run and --output_dir the average: leave --avg_dir out."
        )
    source = values.model_dir or values.output_dir
    if not source:
        raise FlagError(
            "--output_dir is missing: the run directory whose checkpoints are averaged. See"
            f" {COMMAND} --help."
        )
    destination = values.avg_dir or (values.output_dir if values.model_dir else None)
    source_path = absolute(source)
    destination_path = absolute(destination) if destination else None
    if source_path == destination_path:
        raise FlagError(
            f"--avg_dir={destination}: the average needs a directory of its own, beside the run's."
        )
    return source_path, destination_path


if __name__ == "__main__":
    sys.exit(main())
