"""The page of insights on a web server, and the model's steps for inputs that are typed there.

::

    page = InsightsPage(inspector, inspector.document([]))
    with WebServer(insights_routes(lambda: page), "ut-insights", limits=LIMITS): ...

GET of the page's folder gives the page; POST of think in it, {"input": text}, gives {"examples":
[one example]}, or {"error": sentence} with status 400.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ut_tf.errors import UserError, marked_in
from ut_tf.insights.rendering import to_html, to_json
from ut_tf.storage.json_lines import unique_keys
from ut_tf.web.guard import Limits

if TYPE_CHECKING:
    from ut_tf.insights.inspector import Inspector

MOST_BYTES = 64 * 1024
"""Of a request's body."""
LIMITS = Limits(body_bytes=MOST_BYTES, timeout=30.0, connections=64)


class InsightsPage:
    """The page of a document, and the steps for inputs that are typed there.

    Args:
      inspector: of the runs.
      document: from ``Inspector.document``; the page opens with it.
    """

    def __init__(self, inspector: Inspector, document: dict[str, Any]) -> None:
        thinker = inspector.thinkers[0]
        serve = {"input_hint": thinker.hint, "multiline": thinker.model.spec.inputs == "facts"}
        self.html = to_html({**document, "serve": serve})
        self._inspector = inspector
        self._lock = asyncio.Lock()

    async def think(self, body: bytes) -> str:
        """The answer to a POST of {"input": text}, as JSON; one at a time.

        Raises:
          HTTPException: the text is no example of the problem, or several, or too long, or the
            model is busy.
        """
        text = _input(body)
        try:
            await asyncio.wait_for(self._lock.acquire(), LIMITS.timeout)
        except TimeoutError as error:
            told = "the model is busy with other inputs: try again later"
            raise HTTPException(503, told) from error
        try:
            read = self._inspector.read
            examples = await run_in_threadpool(read, text, "the input", single=True)
        except Exception as error:
            # A check inside a graph cannot raise a UserError.
            sentence = str(error) if isinstance(error, UserError) else marked_in(error)
            if sentence is None:
                raise
            raise HTTPException(400, sentence) from error
        finally:
            self._lock.release()
        return to_json({"examples": examples})


def insights_routes(page: Callable[[], InsightsPage], folder: str = "/") -> list[Route]:
    """The routes of a page.

    Args:
      page: makes it, when it is first asked for; a UserError becomes the answer.
      folder: its path, which ends in "/".
    """

    loading = asyncio.Lock()
    pages: list[InsightsPage] = []

    async def load() -> InsightsPage:
        async with loading:
            try:
                if not pages:
                    pages.append(await run_in_threadpool(page))
            except UserError as error:
                raise HTTPException(503, str(error)) from error
        return pages[0]

    async def insights(request: Request) -> Response:
        del request
        return HTMLResponse((await load()).html.encode("utf-8", "replace"))

    async def think(request: Request) -> Response:
        answer = await (await load()).think(await request.body())
        return Response(answer.encode("utf-8", "replace"), media_type="application/json")

    async def beside(request: Request) -> Response:
        # The page asks for what is beside it, by relative paths.
        return RedirectResponse(f"{request.url.path.rpartition('/')[2]}/", 308)

    other = Route("/index.html", insights) if folder == "/" else Route(folder.rstrip("/"), beside)
    return [Route(folder, insights), Route(f"{folder}think", think, methods=["POST"]), other]


def _input(body: bytes) -> str:
    """The text in {"input": text}."""
    if len(body) > MOST_BYTES:
        raise HTTPException(
            413, f"the request has {len(body)} bytes: expected at most {MOST_BYTES}."
        )
    try:
        request = json.loads(body, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        request = None
    text = request.get("input") if isinstance(request, dict) else None
    if not isinstance(text, str):
        raise HTTPException(400, 'the request is not JSON of the form {"input": "text"}.')
    return text
