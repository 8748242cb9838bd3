"""The endpoints of TensorFlow Serving's REST protocol, and of a page to type into.

::

    endpoints = ModelEndpoints(lambda: model, Batcher(), "ende")
    with WebServer(endpoints.routes, "ut-serve", port=8501): ...
"""

import html
import json
from collections.abc import Callable, Sequence
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ut_tf.errors import shown
from ut_tf.serving import rest_messages
from ut_tf.serving.batching import Batcher, Model
from ut_tf.web.style_sheet import style_sheet

DEFAULT_NAME = "model"
INSIGHTS_FOLDER = "/insights/"
_MODEL_PATHS = ("/v1/models/{model}", "/v1/models/{model}/versions/{version}")
# The page has its script and style in itself and asks nobody else.
_PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
_LINK = '<p><a href="insights/">What the model computes at every step</a></p>'


class ModelEndpoints:
    """What answers requests to a model.

    Args:
      model: returns the version to ask, each time anew.
      batcher: calls it.
      name: of the model, in the paths of requests; other than the default, the page's title.
      insights: routes of a page of insights in ``INSIGHTS_FOLDER``; none: there is no such page.

    Fields:
      routes: of all endpoints.
    """

    def __init__(
        self,
        model: Callable[[], Model],
        batcher: Batcher,
        name: str = DEFAULT_NAME,
        insights: Sequence[Route] = (),
    ) -> None:
        self._model = model
        self._batcher = batcher
        self._name = name
        self._has_insights = bool(insights)
        self.routes = [Route(path, self.page) for path in ("/", "/index.html")]
        self.routes += insights
        for model_path in _MODEL_PATHS:
            self.routes += [
                Route(f"{model_path}:predict", self.predict, methods=["POST"]),
                Route(f"{model_path}/metadata", self.metadata),
                Route(model_path, self.status),
            ]
        self.routes.append(Route("/{path:path}", malformed, methods=["GET", "POST"]))

    async def status(self, request: Request) -> Response:
        """The state of the model."""
        return _json(rest_messages.status_json(self._find_model(request).version))

    async def metadata(self, request: Request) -> Response:
        """The signatures of the model."""
        model = self._find_model(request)
        return _json(rest_messages.metadata_json(self._name, model.version, model.signatures))

    async def predict(self, request: Request) -> Response:
        """The outputs of the model."""
        model = self._find_model(request)
        asked = rest_messages.parse_predict(await request.body(), model.signatures)
        outputs = await self._batcher.answer(model, asked.signature, asked.columns)
        rest_messages.check_read(outputs)
        return _json(rest_messages.predict_json(outputs, asked.by_rows))

    def _find_model(self, request: Request) -> Model:
        """The model that the path of a request names."""
        model = self._model()
        name, version = request.path_params["model"], request.path_params.get("version")
        if name != self._name or version not in (None, str(model.version)):
            asked = "Latest" if version is None else "Specific"
            numbered = "" if version is None else f", {shown(version)}"
            raise HTTPException(
                404,
                f"Servable not found for request: {asked}({shown(name)}{numbered}); the"
                f" model {self._name} is served in version {model.version}",
            )
        return model

    async def page(self, request: Request) -> Response:
        """The page to type into."""
        del request
        page = files("ut_tf.serving").joinpath("page.html").read_text(encoding="utf-8")
        title = self._model().title if self._name == DEFAULT_NAME else ""
        page = page.replace("{{title}}", html.escape(title or self._name))
        page = page.replace("{{model}}", html.escape(self._name, quote=True))
        page = page.replace("{{about}}", html.escape(json.dumps(self._model().about), quote=True))
        page = page.replace("{{insights}}", _LINK if self._has_insights else "")
        page = page.replace("{{theme}}", style_sheet("theme"))
        return HTMLResponse(page, headers={"Content-Security-Policy": _PAGE_POLICY})


async def malformed(request: Request) -> Response:
    """Refuses what is not of the protocol."""
    raise HTTPException(400, f"Malformed request: {request.method} {shown(request.scope['path'])}")


def _json(content: str) -> Response:
    return Response(content, media_type="application/json")
