"""ut-serve: serves an exported model by TensorFlow Serving's REST protocol, with a page to type
into.

``ut-serve --export_dir=exports/ende --port=8501``
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ut_tf.bin.frame import flags
from ut_tf.bin.frame.command import entry_point, import_tensorflow, tell
from ut_tf.bin.frame.declarations import declaration
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.serving_flags import (
    checked_allowed_hosts,
    give_memory_back,
    log_of,
    serve_until,
    stop_request,
)
from ut_tf.errors import UserError
from ut_tf.paths import absolute
from ut_tf.run import Run
from ut_tf.serving.versions import newest_saved, saved_versions
from ut_tf.storage.layout import EXPORT_FOLDER

if TYPE_CHECKING:
    from starlette.routing import Route

COMMAND, DESCRIPTION, FLAGS = declaration("serve")

_POSITIVE = ("max_batch_size", "num_batch_threads", "max_waiting", "max_body_mb", "timeout")
_LARGEST = 1_000_000
# As many threads as Starlette has.
_MOST_CALLS = 40


@entry_point(COMMAND, FLAGS)
def main(argv: list[str]) -> None:
    """Runs the command, given the words of its command line."""
    values = flags.parse(COMMAND, DESCRIPTION, FLAGS, argv)
    export_dir = _checked_export_dir(values)
    allowed_hosts = checked_allowed_hosts(values)
    give_memory_back()
    insights: Sequence[Route] = ()
    if values.output_dir:
        insights = _insights(Run.load(values.output_dir, usr_dir=values.usr_dir))
    from ut_tf.serving.batching import Batcher
    from ut_tf.serving.endpoints import ModelEndpoints
    from ut_tf.serving.newest import NewestVersion
    from ut_tf.web.guard import Limits
    from ut_tf.web.server import WebServer

    report = log_of(COMMAND)
    limits = Limits(int(values.max_body_mb * 1_000_000), values.timeout)
    sizes = values.max_batch_size, values.max_waiting, values.num_batch_threads
    batcher = Batcher(*sizes, values.timeout)
    endpoints = ModelEndpoints(lambda: newest.model, batcher, values.model_name, insights)
    # First of all, since loading takes longer than to find the port in use.
    address = values.host, values.port, allowed_hosts
    server = WebServer(
        endpoints.routes, COMMAND, *address, limits, report, values.access_log, [batcher.sizes]
    )
    tell(COMMAND, f"loading {export_dir}")
    import_tensorflow()
    from ut_tf.serving.served_model import ServedModel

    with stop_request() as stop:
        newest = NewestVersion(export_dir, ServedModel, report)
        with newest, server:
            tell(
                COMMAND,
                f"{values.model_name}, version {newest.model.version} of {export_dir}, at"
                f" {server.address} ({', '.join(newest.model.signatures)})",
            )
            asks = f"ut-query --server={server.address} --model_name={values.model_name}"
            print(f"next: {asks}", file=sys.stderr, flush=True)
            serve_until(stop)


def _insights(run: Run) -> Sequence[Route]:
    """The routes of the page of a run's insights."""
    from ut_tf.insights.served_page import InsightsPage, insights_routes
    from ut_tf.serving.endpoints import INSIGHTS_FOLDER

    def page() -> InsightsPage:
        from ut_tf.insights.inspector import Inspector

        inspector = Inspector.from_run(run)
        return InsightsPage(inspector, inspector.document([], 0))

    return insights_routes(page, INSIGHTS_FOLDER)


def _checked_export_dir(values: Any) -> Path:
    for name in _POSITIVE:
        most = _MOST_CALLS if name == "num_batch_threads" else _LARGEST
        if not 0 < values[name].value <= most:
            raise FlagError(
                f"--{name}={values[name].value}: expected a number above 0, at most {most}."
            )
    if not re.fullmatch(r"[\w.-]+", values.model_name):
        raise FlagError(
            f"--model_name={values.model_name}: expected letters, digits, '_', '-' and '.'."
        )
    if not (values.export_dir or values.output_dir):
        raise FlagError(f"--export_dir is missing; see {COMMAND} --help.")
    folder = absolute(values.export_dir or Path(values.output_dir) / EXPORT_FOLDER)
    if not values.export_dir and not saved_versions(folder):
        raise UserError(
            f"{folder} holds no exported model: run ut-exporter --output_dir={values.output_dir}"
            " first."
        )
    newest_saved(folder)
    return folder


if __name__ == "__main__":
    sys.exit(main())
