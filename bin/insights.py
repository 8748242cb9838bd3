"""ut-insights: shows what a trained run's model computes at every step; needs nothing but the run
directory and, for test examples, its data.

``ut-insights --output_dir=runs/babi --html=think.html``
"""

from __future__ import annotations

import contextlib
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf.bin.examples.input import given_texts
from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import (
    entry_point,
    import_tensorflow,
    refuse_overwriting,
    stdout_to_stderr,
)
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.readable_run import load_run
from ut_tf.bin.serving_flags import (
    checked_allowed_hosts,
    give_memory_back,
    log_of,
    serve_until,
    stop_request,
)
from ut_tf.paths import expanded
from ut_tf.run import Run
from ut_tf.storage.find_checkpoint import check_checkpoint

if TYPE_CHECKING:
    from ut_tf.insights.served_page import InsightsPage
    from ut_tf.web.server import WebServer

COMMAND, DESCRIPTION, FLAGS = declaration("insights")


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    _check(values)
    allowed_hosts = checked_allowed_hosts(values)
    texts = given_texts(values)
    if values.serve:
        give_memory_back()
    run = load_run(values).in_use(values.hparams)
    check_checkpoint(run.output_dir, values.checkpoint)
    other = None
    if values.compare_with:
        folders = {name: values[name].value for name in ("data_dir", "tmp_dir", "usr_dir")}
        other = Run.load(values.compare_with, **folders)
        check_checkpoint(other.output_dir, values.compare_checkpoint)
    from ut_tf.insights.served_page import InsightsPage

    pages: list[InsightsPage] = []
    with contextlib.ExitStack() as port:
        server = None
        if values.serve:
            # First of all, since loading takes longer than to find the port in use.
            server = _server(values, allowed_hosts, pages)
            port.callback(server.stop)
        import_tensorflow()
        from ut_tf.insights.inspector import Inspector, example_counts

        with stdout_to_stderr():
            inspector = Inspector.from_run(run, other, values.checkpoint, values.compare_checkpoint)
            examples = [example for name, text in texts for example in inspector.read(text, name)]
            shown, counted = example_counts(bool(texts), values.examples, values.histogram_examples)
            examples += inspector.test_examples(shown)
            document = inspector.document(examples, counted)
        _write(document, values)
        if server is not None:
            pages.append(InsightsPage(inspector, document))
            with stop_request() as stop, server:
                log_of(COMMAND)(f"{server.address}/ (Ctrl-C ends it)")
                serve_until(stop)


def _check(values: Any) -> None:
    if not (values.html or values.json or values.serve):
        raise FlagError(
            "--html, --json and --serve each say where to show the model: give at least one."
        )
    if values.compare_checkpoint != "best" and not values.compare_with:
        raise FlagError(
            f"--compare_checkpoint={values.compare_checkpoint} is of --compare_with: add that flag,"
            " or leave this one out."
        )
    for name in ("examples", "histogram_examples"):
        if values[name].value is not None and values[name].value < 0:
            raise FlagError(f"--{name}={values[name].value}: expected a whole number from 0.")
    for name in ("html", "json"):
        given = values[name].value
        if given and Path(given).suffix.lower() != f".{name}":
            raise FlagError(f"--{name}={given}: expected a name that ends in .{name}.")
        if given and values.input_file:
            source = expanded(values.input_file)
            refuse_overwriting(name, expanded(given), [source])


def _write(document: dict[str, Any], values: Any) -> None:
    from ut_tf.insights.rendering import write_document

    for name in (values.html, values.json):
        if name:
            path = expanded(name)
            write_document(document, path)
            print(path)
    if values.html and not values.no_open and sys.stdout.isatty():
        webbrowser.open(expanded(values.html).resolve().as_uri())


def _server(values: Any, allowed_hosts: Sequence[str], pages: Sequence[InsightsPage]) -> WebServer:
    """A server of the page that `pages` will hold."""
    from ut_tf.insights.served_page import LIMITS, insights_routes
    from ut_tf.web.server import WebServer

    routes = insights_routes(lambda: pages[0])
    given = values.host, values.port, allowed_hosts, LIMITS, log_of(COMMAND), values.access_log
    return WebServer(routes, COMMAND, *given)


if __name__ == "__main__":
    sys.exit(main())
