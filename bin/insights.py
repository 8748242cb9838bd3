"""ut-insights: shows what a trained run's model computes at every step; needs nothing but the run
directory and, for test examples, its data.

``ut-insights --output_dir=runs/babi --html=think.html``
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf.bin import flags, shared_flags
from ut_tf.bin.command import execute, import_tensorflow, refuse_overwriting, stdout_to_stderr
from ut_tf.bin.flags import Flag, FlagError
from ut_tf.bin.readable_run import load_run
from ut_tf.inference.text_files import read_input
from ut_tf.run import Run
from ut_tf.storage.checkpoints import check_checkpoint

if TYPE_CHECKING:
    from ut_tf.insights.inspector import Inspector

COMMAND = "ut-insights"
DESCRIPTION = """ut-insights: shows what a trained run's model computes at every step: ponder times,
halting, attention, and the answer after each step.

  ut-insights --output_dir=runs/babi --html=think.html
  ut-insights --output_dir=runs/reverse --input=31415 --json=think.json
  ut-insights --output_dir=runs/babi --compare_with=runs/fixed --examples=4 --html=think.html
  ut-insights --output_dir=runs/babi --serve

The page is one file that needs no network. Texts are read as ut-decoder reads them."""

_EXAMPLES, _OUT, _HOW = "Examples", "Output", "How"
FLAGS = (
    shared_flags.CHECKPOINT,
    shared_flags.HPARAMS_IN_USE,
    Flag(
        "compare_with",
        "Run directory of another model, shown beside.",
        "What",
        shown_default="none",
    ),
    Flag("compare_checkpoint", "Its checkpoint, as for --checkpoint.", "What", default="best"),
    Flag(
        "input", "A text to read; lines are divided as in a file.", _EXAMPLES, shown_default="none"
    ),
    Flag("input_file", "File of texts to read, plain or gzip.", _EXAMPLES, shown_default="none"),
    Flag(
        "examples",
        "Test examples to show.",
        _EXAMPLES,
        "integer",
        shown_default="8, or 0 where there is an input",
    ),
    Flag(
        "histogram_examples",
        "Test examples in the histograms of ponder times.",
        _EXAMPLES,
        "integer",
        shown_default="200, or 0 where no test examples are shown",
    ),
    Flag("html", "The page to write.", _OUT, shown_default="none"),
    Flag("json", "The same as JSON (docs/insights.md).", _OUT, shown_default="none"),
    Flag(
        "serve",
        "Serves the page, with a field for inputs, until Ctrl-C.",
        _OUT,
        "boolean",
        default=False,
    ),
    Flag(
        "host",
        "Address to serve at; who can reach it can use the model.",
        _OUT,
        default="localhost",
    ),
    Flag("port", "Port to serve at; 0: any free one.", _OUT, "integer", default=8008),
    shared_flags.READ_RUN_DIR,
    shared_flags.SAVED_MODEL,
    shared_flags.RUN_DATA_DIR,
    shared_flags.RUN_TMP_DIR,
    shared_flags.RUN_USR_DIR,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    return execute(COMMAND, FLAGS, lambda: _main(flags.command_line(argv)))


def _main(argv: list[str]) -> None:
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    _check(values)
    texts = _texts(values)
    run = load_run(values).in_use(values.hparams)
    check_checkpoint(run.output_dir, values.checkpoint)
    other = None
    if values.compare_with:
        folders = {name: values[name].value for name in ("data_dir", "tmp_dir", "usr_dir")}
        other = Run.load(values.compare_with, **folders)
        check_checkpoint(other.output_dir, values.compare_checkpoint)
    import_tensorflow()
    from ut_tf.insights.inspector import Inspector, example_counts

    with stdout_to_stderr():
        inspector = Inspector.from_run(run, other, values.checkpoint, values.compare_checkpoint)
        examples = [example for name, text in texts for example in inspector.read(text, name)]
        shown, counted = example_counts(bool(texts), values.examples, values.histogram_examples)
        examples += inspector.test_examples(shown)
        document = inspector.document(examples, counted)
    _write(document, values)
    if values.serve:
        _serve(inspector, document, values)


def _check(values: Any) -> None:
    if not (values.html or values.json or values.serve):
        raise FlagError(
            "--html, --json and --serve each say where to show the model: give at least one."
        )
    for name in ("examples", "histogram_examples"):
        if values[name].value is not None and values[name].value < 0:
            raise FlagError(f"--{name}={values[name].value}: expected a whole number from 0.")
    if not 0 <= values.port <= 65535:
        raise FlagError(f"--port={values.port}: expected a number from 0 to 65535.")
    for name in ("html", "json"):
        given = values[name].value
        if given and Path(given).suffix.lower() != f".{name}":
            raise FlagError(f"--{name}={given}: expected a name that ends in .{name}.")
        if given and values.input_file:
            source = Path(values.input_file).expanduser()
            refuse_overwriting(name, Path(given).expanduser(), [source])


def _texts(values: Any) -> list[tuple[str, str]]:
    """The names and texts of the inputs."""
    texts = []
    if values.input is not None:
        texts.append(("--input", values.input))
    if values.input_file:
        lines = read_input(Path(values.input_file).expanduser())
        texts.append((values.input_file, "\n".join(lines)))
    return texts


def _write(document: dict[str, Any], values: Any) -> None:
    from ut_tf.insights.rendering import write_document

    for name in (values.html, values.json):
        if name:
            path = Path(name).expanduser()
            write_document(document, path)
            print(path)


def _serve(inspector: Inspector, document: dict[str, Any], values: Any) -> None:
    from ut_tf.insights.server import InsightsServer

    with InsightsServer(inspector, document, values.host, values.port) as server:
        print(f"{COMMAND}: {server.url} (Ctrl-C ends it)", file=sys.stderr, flush=True)
        # This is how it ends.
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
