"""A server of TensorFlow Serving's REST protocol, and of a page to type into.

How it works: a ``WebServer`` reads requests, and each waits for the answer of a ``Batcher``. Needs
no TensorFlow.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Self

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ut_tf.errors import shown
from ut_tf.serving import rest_messages
from ut_tf.serving.batching import Batcher, Model
from ut_tf.web.guard import Limits
from ut_tf.web.server import LOCAL, WebServer

DEFAULT_NAME = "model"
INSIGHTS_FOLDER = "/insights/"
_MODEL_PATHS = ("/v1/models/{model}", "/v1/models/{model}/versions/{version}")
# The page has its script and style in itself and asks nobody else.
_PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
_LINK = '<p><a href="insights/">What the model computes at every step</a></p>'


class ModelServer:
    """A context in which a model is served.

    Args:
      model: returns the version to ask, each time anew.
      batcher: answers the requests.
      name: of the model, in the paths of requests; other than the default, the page's title.
      host, port, allowed_hosts, limits, report, access_log: as of ``WebServer``.
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
        insights: Sequence[Route] = (),
        access_log: bool = False,
    ) -> None:
        self.model = model
        self.batcher = batcher
        self.name = name
        self._has_insights = bool(insights)
        routes = [Route(path, self.page) for path in ("/", "/index.html")]
        routes += insights
        for model_path in _MODEL_PATHS:
            routes += [
                Route(f"{model_path}:predict", self.predict, methods=["POST"]),
                Route(f"{model_path}/metadata", self.metadata),
                Route(model_path, self.status),
            ]
        routes.append(Route("/{path:path}", _malformed, methods=["GET", "POST"]))
        self.web = WebServer(
            routes, "ut-serve", host, port, allowed_hosts, limits, report, access_log
        )
        self.web.guard.registry.register(batcher.sizes)
        self.address = self.web.address

    def __enter__(self) -> Self:
        self.web.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Answers all requests that have arrived, as ``WebServer.stop`` does, and ends."""
        self.web.stop()

    async def status(self, request: Request) -> Response:
        """The state of the model."""
        return _json(rest_messages.status_json(self._asked(request).version))

    async def metadata(self, request: Request) -> Response:
        """The signatures of the model."""
        model = self._asked(request)
        return _json(rest_messages.metadata_json(self.name, model.version, model.signatures))

    async def predict(self, request: Request) -> Response:
        """The outputs of the model."""
        model = self._asked(request)
        asked = rest_messages.parse_predict(await request.body(), model.signatures)
        outputs = await self.batcher.answer(
            model, asked.signature, asked.columns, self.web.guard.limits.timeout
        )
        rest_messages.check_read(outputs)
        return _json(rest_messages.predict_json(outputs, asked.by_rows))

    def _asked(self, request: Request) -> Model:
        """The model that the path of a request names."""
        model = self.model()
        name, version = request.path_params["model"], request.path_params.get("version")
        if name != self.name or version not in (None, str(model.version)):
            asked = "Latest" if version is None else "Specific"
            numbered = "" if version is None else f", {shown(version)}"
            raise HTTPException(
                404,
                f"Servable not found for request: {asked}({shown(name)}{numbered}); the"
                f" model {self.name} is served in version {model.version}",
            )
        return model

    async def page(self, request: Request) -> Response:
        """The page to type into."""
        del request
        page = files("ut_tf.serving").joinpath("page.html").read_text(encoding="utf-8")
        title = self.model().title if self.name == DEFAULT_NAME else ""
        page = page.replace("{{title}}", html.escape(title or self.name))
        page = page.replace("{{model}}", html.escape(self.name, quote=True))
        page = page.replace("{{insights}}", _LINK if self._has_insights else "")
        return HTMLResponse(page, headers={"Content-Security-Policy": _PAGE_POLICY})


async def _malformed(request: Request) -> Response:
    raise HTTPException(400, f"Malformed request: {request.method} {shown(request.url.path)}")


def _json(content: str) -> Response:
    return Response(content, media_type="application/json")
