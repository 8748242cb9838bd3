"""ut-exporter: writes a trained run as a SavedModel for TensorFlow Serving; needs nothing but the
run directory.

``ut-exporter --output_dir=runs/translate_ende-ut_base --export_dir=exports/ende``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ut_tf.bin import flags, shared_flags
from ut_tf.bin.command import execute, import_tensorflow, stdout_to_stderr
from ut_tf.bin.flag_values import decode_config
from ut_tf.bin.flags import Flag, FlagError
from ut_tf.run import Run
from ut_tf.serving.versions import new_version
from ut_tf.storage.checkpoints import check_checkpoint
from ut_tf.storage.layout import EXPORT_FOLDER

COMMAND = "ut-exporter"
DESCRIPTION = """ut-exporter: writes a trained run as a SavedModel that takes and returns text, for
TensorFlow Serving.

  ut-exporter --output_dir=runs/ende --export_dir=exports/ende
  ut-exporter --output_dir=runs/ende --decode_hparams="beam_size=1" --dtype=bfloat16

The last line on standard output is the folder that was written, <export_dir>/<version>."""

_HOW = "How"
FLAGS = (
    shared_flags.CHECKPOINT,
    shared_flags.DECODE_HPARAMS,
    shared_flags.HPARAMS_IN_USE,
    Flag(
        "signatures",
        "Names of the signatures to export, separated by commas.",
        "What",
        default="",
        shown_default="all of the problem",
    ),
    Flag(
        "dtype",
        "float32, or bfloat16: half the size, and faster where the processor has it.",
        _HOW,
        default="float32",
    ),
    Flag(
        "quantize",
        "int8: matrices take a quarter of float32's space; answers come no faster.",
        _HOW,
        default="",
        shown_default="none",
    ),
    Flag(
        "warmup",
        "Adds requests that TensorFlow Serving runs when it loads the model.",
        _HOW,
        "boolean",
        default=True,
    ),
    shared_flags.RUN_DIR,
    Flag(
        "export_dir",
        "Directory that holds the versions of the served model.",
        "Where",
        shown_default="<output_dir>/export",
    ),
    Flag(
        "version",
        "Number of the version; the highest is served.",
        "Where",
        "integer",
        shown_default="one more than the highest there is",
    ),
    shared_flags.RUN_USR_DIR,
)
_CHOICES = {"dtype": ("float32", "bfloat16"), "quantize": ("", "int8")}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, FLAGS, lambda: _main(flags.command_line(argv)))


def _main(argv: list[str]) -> None:
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    _check(values)
    names = [name.strip() for name in values.signatures.split(",") if name.strip()]
    with stdout_to_stderr():
        run = Run.load(values.output_dir, usr_dir=values.usr_dir).in_use(values.hparams)
        decode = decode_config(values.decode_hparams)
        export_dir = (
            Path(values.export_dir or run.output_dir / EXPORT_FOLDER).expanduser().absolute()
        )
        new_version(export_dir, values.version)
        check_checkpoint(run.output_dir, values.checkpoint)
        import_tensorflow()
        from ut_tf.serving.export import export_run

        folder = export_run(
            run,
            export_dir,
            checkpoint=values.checkpoint,
            decode=decode,
            dtype=values.dtype,
            quantize=values.quantize,
            signatures=names,
            warmup=values.warmup,
            version=values.version,
        )
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(
            f"{run.problem} with {run.hparams_set}, checkpoint {values.checkpoint}:"
            f" {size / 1e6:.1f} MB"
        )
    print(folder)


def _check(values: Any) -> None:
    for name, choices in _CHOICES.items():
        if values[name].value not in choices:
            raise FlagError(
                f"--{name}={values[name].value}: expected {' or '.join(filter(None, choices))}; see"
                f" {COMMAND} --help."
            )
    if values.version is not None and values.version < 0:
        raise FlagError(f"--version={values.version}: expected a whole number from 0.")


if __name__ == "__main__":
    sys.exit(main())
