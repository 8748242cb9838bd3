"""ut-import-t2t: makes a run directory of ours from one of tensor2tensor's.

``ut-import-t2t --t2t_dir=t2t_train/reverse --output_dir=runs/imported``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ut_tf import registry
from ut_tf.bin import flags, shared_flags
from ut_tf.bin.command import execute, import_tensorflow, stdout_to_stderr
from ut_tf.bin.flags import Flag
from ut_tf.bin.readable_run import evaluation_line
from ut_tf.interop.tensor2tensor_files import read_hparams

COMMAND = "ut-import-t2t"
DESCRIPTION = """ut-import-t2t: makes a run directory from tensor2tensor's output directory, with
its weights and hyperparameters.

  ut-import-t2t --t2t_dir=t2t_train/reverse --problem=algorithmic_reverse_decimal40 \\
      --output_dir=runs/imported
  ut-eval --output_dir=runs/imported"""

FLAGS = (
    Flag(
        "problem",
        "Registered name of the problem.",
        "What",
        shown_default="the one that t2t_dir names or its symbols tell",
    ),
    Flag(
        "checkpoint",
        "Path or name of one of tensor2tensor's checkpoints.",
        "What",
        shown_default="the latest",
        aliases=("checkpoint_path",),
    ),
    Flag(
        "target_space_id",
        "tensor2tensor's SpaceID of the problem's targets: the row of the target space embedding.",
        "What",
        "integer",
        shown_default="the row that was trained",
    ),
    shared_flags.PROBLEM_ARGS,
    Flag("t2t_dir", "tensor2tensor's output directory.", "Where", required=True),
    Flag("output_dir", "Where the run directory is written.", "Where", required=True),
    shared_flags.DATA_DIR,
    shared_flags.TMP_DIR,
    shared_flags.USR_DIR,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, FLAGS, lambda: _main(flags.command_line(argv)), argv)


def _main(argv: list[str]) -> None:
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    if values.usr_dir:
        registry.import_user_code(values.usr_dir)
    if values.problem:
        registry.problems.check(values.problem)
    # A wrong folder is answered before TensorFlow is imported.
    read_hparams(Path(values.t2t_dir))
    with stdout_to_stderr():
        import_tensorflow()
        from ut_tf.interop.tensor2tensor import import_run

        import_run(
            values.t2t_dir,
            values.output_dir,
            problem=values.problem,
            checkpoint=values.checkpoint,
            target_space_id=values.target_space_id,
            data_dir=values.data_dir,
            tmp_dir=values.tmp_dir,
            problem_args=values.problem_args,
            usr_dir=values.usr_dir,
        )
    print(f"next: {evaluation_line(values.output_dir, values.usr_dir)}")


if __name__ == "__main__":
    sys.exit(main())
