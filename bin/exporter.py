"""ut-exporter: writes a trained run as a SavedModel for TensorFlow Serving, as a LiteRT file or as
a saved model; needs nothing but the run directory.

``ut-exporter --output_dir=runs/translate_ende-ut_base --export_dir=exports/ende``
"""

import shlex
import sys
from pathlib import Path
from typing import Any

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point, import_tensorflow, stdout_to_stderr
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flag_values import decode_config
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import load_run, usr_dir_words
from ut_tf.paths import absolute
from ut_tf.run import Run
from ut_tf.serving.versions import new_version
from ut_tf.sharing.hub import check_place, upload
from ut_tf.sharing.places import check_new
from ut_tf.storage.find_checkpoint import check_checkpoint
from ut_tf.storage.layout import EXPORT_FOLDER, LITERT_FOLDER

COMMAND, DESCRIPTION, FLAGS = declaration("exporter")

_CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "savedmodel": {"dtype": ("float32", "bfloat16"), "quantize": ("", "int8")},
    "litert": {"dtype": ("float32",), "quantize": ("", "int8")},
    "model": {"dtype": ("float32", "float16"), "quantize": ("",)},
}
# Flags that not all formats have a use for.
_FORMATS = {
    "decode_hparams": ("savedmodel",),
    "signatures": ("savedmodel",),
    "warmup": ("savedmodel",),
    "version": ("savedmodel", "litert"),
    "license": ("model",),
    "upload_to": ("model",),
}
_FOLDERS = {"savedmodel": EXPORT_FOLDER, "litert": LITERT_FOLDER}


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    _check(values)
    with stdout_to_stderr():
        run = load_run(values).in_use(values.hparams)
        check_checkpoint(run.output_dir, values.checkpoint)
        folder = _save(run, values) if values.format == "model" else _export(run, values)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(
            f"{run.problem} with {run.hparams_set}, checkpoint {values.checkpoint}:"
            f" {size / 1e6:.1f} MB"
        )
    print(folder)
    _say_next(values, folder)


def _say_next(values: Any, folder: Path) -> None:
    """Tells the command that reads what was written, if one does."""
    if values.format == "savedmodel":
        export_dir = shlex.quote(str(folder.parent))
        print(f"next: ut-serve --export_dir={export_dir}", file=sys.stderr)
    elif values.format == "model":
        usr_dir = usr_dir_words(values.usr_dir)
        print(
            " ".join([f"next: ut-eval --model={shlex.quote(str(folder))}", *usr_dir]),
            file=sys.stderr,
        )


def _export(run: Run, values: Any) -> Path:
    """Writes a SavedModel or a LiteRT file and returns the folder of its version."""
    names = [name.strip() for name in values.signatures.split(",") if name.strip()]
    decode = decode_config(values.decode_hparams)
    own = run.output_dir / _FOLDERS[values.format]
    export_dir = absolute(values.export_dir or own)
    new_version(export_dir, values.version)
    import_tensorflow()
    if values.format == "litert":
        from ut_tf.serving.litert import export_litert

        return export_litert(run, export_dir, values.checkpoint, values.quantize, values.version)
    from ut_tf.serving.export import export_run

    return export_run(
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


def _save(run: Run, values: Any) -> Path:
    """Writes a saved model, uploads it where that is wanted, and returns its folder."""
    check_new(absolute(values.export_dir))
    if values.upload_to:
        check_place(values.upload_to)
    import_tensorflow()
    from ut_tf.sharing.saving import save

    folder = save(run, values.export_dir, values.checkpoint, values.dtype, values.license)
    if values.upload_to:
        print(f"uploaded: {upload(folder, values.upload_to)}")
    return folder


def _check(values: Any) -> None:
    if values.format not in _CHOICES:
        raise FlagError(f"--format={values.format}: expected {' or '.join(_CHOICES)}.")
    if not values.export_dir and (values.model or values.format == "model"):
        raise FlagError("--export_dir is missing: the folder that is written.")
    for name, formats in _FORMATS.items():
        if values[name].present and values.format not in formats:
            raise FlagError(f"--{name} goes with --format={formats[0]}: leave one of the two out.")
    for name, choices in _CHOICES[values.format].items():
        if values[name].value not in choices:
            raise FlagError(
                f"--{name}={values[name].value}: expected {' or '.join(filter(None, choices))}; see"
                f" {COMMAND} --help."
            )
    if values.version is not None and values.version < 0:
        raise FlagError(f"--version={values.version}: expected a whole number from 0.")


if __name__ == "__main__":
    sys.exit(main())
