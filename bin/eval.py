"""ut-eval: judges a trained run; needs nothing but its directory.

``ut-eval --output_dir=runs/babi_qa-ut_base``
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence

from ut_tf.bin import flags
from ut_tf.bin.command import execute, import_tensorflow, metrics_table, stdout_to_stderr
from ut_tf.bin.flags import Flag
from ut_tf.errors import UserError
from ut_tf.run import Run

COMMAND = "ut-eval"
DESCRIPTION = """ut-eval: judges a trained run on the sets that its problem names.

  ut-eval --output_dir=runs/babi_qa-ut_base
  ut-eval --output_dir=runs/copy --lengths=40,80,400 | tail -n 1 > metrics.json

The last line on standard output is one JSON object with every metric; everything else goes to standard error."""

FLAGS = (
    Flag("checkpoint", "best (by validation), last, or the path of a checkpoint.", "What", default="best", aliases=("checkpoint_path",)),
    Flag(
        "lengths",
        "Lengths to judge at, such as 40,80,400, for problems that make examples of a length.",
        "What",
        default="",
        shown_default="the problem's",
    ),
    Flag("split", "Split to judge on: train, validation or test.", "What", shown_default="the problem's"),
    flags.RUN_DIR,
    flags.RUN_DATA_DIR,
    flags.RUN_TMP_DIR,
    flags.RUN_USR_DIR,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, lambda: _main(flags.command_line(argv)))


def _main(argv: list[str]) -> None:
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    lengths = flags.integers(values.lengths, "lengths")
    with stdout_to_stderr():
        run = Run.load(values.output_dir, data_dir=values.data_dir, tmp_dir=values.tmp_dir, usr_dir=values.usr_dir)
        import_tensorflow()
        from ut_tf.evaluation.evaluator import evaluate_checkpoint

        run = run.prepare()
        _check_lengths(run, lengths)
        step, metrics = evaluate_checkpoint(run, checkpoint=values.checkpoint, lengths=lengths, split=values.split)
        print(f"{run.problem} with {run.hparams_set}, checkpoint of step {step}\n{metrics_table(metrics)}")
    print(json_line(metrics))


def _check_lengths(run: Run, lengths: tuple[int, ...]) -> None:
    if lengths and not any(one.length for one in run.make_problem().evaluation_sets(lengths)):
        raise UserError(f"--lengths={','.join(map(str, lengths))}: {run.problem} makes no examples of a given length; leave the flag out.")


def json_line(metrics: Mapping[str, float]) -> str:
    """Returns the metrics as one line of JSON, sorted by name; what is not finite is null, since JSON has no word for it."""
    numbers = {name: float(value) if math.isfinite(value) else None for name, value in metrics.items()}
    return json.dumps(numbers, sort_keys=True, allow_nan=False)


if __name__ == "__main__":
    sys.exit(main())
