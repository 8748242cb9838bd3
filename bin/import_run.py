"""ut-import: makes a run directory of ours from a checkpoint of another system.

``ut-import --from=trm --checkpoint=step_65104.pth --config=all_config.yaml --problem=puzzle_folder
--problem_args=folder=data/sudoku-extreme --output_dir=runs/imported``
"""

import sys
from typing import Any

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point, import_tensorflow, stdout_to_stderr
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import evaluation_line
from ut_tf.bin.import_flags import check_names, import_tensor2tensor
from ut_tf.errors import did_you_mean

COMMAND, DESCRIPTION, FLAGS = declaration("import_run")

_T2T = "tensor2tensor"
_KINDS = ("trm", "hrm", "huginn", _T2T)
_FILES = ("checkpoint", "config", "problem")
_OF_T2T = ("t2t_dir", "target_space_id", "vocab")


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    kind = str(values["from"].value)
    if kind not in _KINDS:
        near = did_you_mean(kind, _KINDS) or "."
        raise FlagError(f"--from={kind}: expected one of {', '.join(_KINDS)}{near}")
    needed, others = (("t2t_dir",), ("config",)) if kind == _T2T else (_FILES, _OF_T2T)
    for name in others:
        if values[name].value is not None:
            raise FlagError(f"--{name} is not read with --from={kind}: leave it out.")
    for name in needed:
        if not values[name].value:
            raise FlagError(
                f"--{name} is missing, which --from={kind} needs; see {COMMAND} --help."
            )
    if kind == _T2T:
        import_tensor2tensor(values)
    else:
        _import_weights(kind, values)


def _import_weights(kind: str, values: Any) -> None:
    check_names(values)
    with stdout_to_stderr():
        import_tensorflow()
        from ut_tf.interop.imported_run import import_checkpoint

        import_checkpoint(
            kind,
            values.checkpoint,
            values.config,
            values.output_dir,
            values.problem,
            problem_args=values.problem_args,
            data_dir=values.data_dir,
            tmp_dir=values.tmp_dir,
            usr_dir=values.usr_dir,
        )
    print(f"next: {evaluation_line(values.output_dir, values.usr_dir)}")


if __name__ == "__main__":
    sys.exit(main())
