"""A server of TensorFlow Serving's REST protocol, and of a page to type into.

How it works: a ``WebServer`` reads requests, and each waits for the answer of a ``Batcher``. Needs
no TensorFlow.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Self

from ut_tf.serving import rest_messages
from ut_tf.serving.batching import Batcher, Model
from ut_tf.web.replies import HTML, Limits, Reply, RequestError, Routes, routed, shown
from ut_tf.web.server import LOCAL, WebServer

DEFAULT_NAME = "model"
INSIGHTS_FOLDER = "/insights/"
# The page has its script and style in itself and asks nobody else.
_PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
# After the end of the web server.
_COMPUTING_SECONDS = 2.0
_LINK = '<p><a href="insights/">What the model computes at every step</a></p>'


class ModelServer:
    """A context in which a model is served.

    Args:
      model: returns the version to ask, each time anew.
      batcher: answers the requests; closed at the end.
      name: of the model, in the paths of requests; other than the default, the page's title.
      host, port, allowed_hosts, limits, report: as of ``WebServer``.
      insights: routes of a page of insights in ``INSIGHTS_FOLDER``; none: there is no such page.

    Raises:
      UserError: as ``WebServer`` does.
    """

    def __init__(
        self,
        model: Callable[[], Model],
        batcher: Batcher,
        name: str = DEFAULT_NAME,
        host: str = LOCAL,
        port: int = 8501,
        allowed_hosts: Sequence[str] = (),
        limits: Limits | None = None,
        report: Callable[[str], None] = print,
        insights: Routes | None = None,
    ) -> None:
        self.model = model
        self.batcher = batcher
        self.name = name
        self._has_insights = bool(insights)
        pages = {("GET", path): self._page for path in ("/", "/index.html")}
        answer = routed({**pages, **(insights or {})}, self._protocol)
        self.web = WebServer(answer, "ut-serve", host, port, allowed_hosts, limits, report)
        self.address = self.web.address

    def __enter__(self) -> Self:
        self.web.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Answers all requests that have arrived, as ``WebServer.stop`` does, and ends."""
        self.web.stop()
        self.batcher.close(_COMPUTING_SECONDS)

    def _protocol(self, method: str, path: str, body: bytes) -> Reply:
        """The answer to a request of TensorFlow Serving's protocol."""
        target = rest_messages.parse_path(method, path)
        model = self.model()
        if target.model != self.name or target.version not in (None, model.version):
            asked = "Latest" if target.version is None else "Specific"
            version = "" if target.version is None else f", {target.version}"
            raise RequestError(
                404,
                f"Servable not found for request: {asked}({shown(target.model)}{version}); the"
                f" model {self.name} is served in version {model.version}",
            )
        if target.action == "status":
            return Reply(rest_messages.status_json(model.version))
        if target.action == "metadata":
            return Reply(rest_messages.metadata_json(self.name, model.version, model.signatures))
        asked_for = rest_messages.parse_predict(body, model.signatures)
        outputs = self.batcher.answer(
            model, asked_for.signature, asked_for.columns, self.web.limits.timeout
        )
        rest_messages.check_read(outputs)
        return Reply(rest_messages.predict_json(outputs, asked_for.by_rows))

    def _page(self, body: bytes) -> Reply:
        del body
        page = files("ut_tf.serving").joinpath("page.html").read_text(encoding="utf-8")
        title = self.model().title if self.name == DEFAULT_NAME else ""
        page = page.replace("{{title}}", html.escape(title or self.name))
        page = page.replace("{{model}}", html.escape(self.name, quote=True))
        page = page.replace("{{insights}}", _LINK if self._has_insights else "")
        return Reply(page, HTML, headers={"Content-Security-Policy": _PAGE_POLICY})
