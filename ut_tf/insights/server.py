"""A small web server: the page, and the model's steps for inputs that are typed there.

::

    with InsightsServer(inspector, document, port=8008) as server:
        server.serve_forever()

GET / gives the page; POST /think {"input": text} gives {"examples": [one example]}, or {"error":
sentence} with status 400.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ut_tf.errors import UserError, marked_in
from ut_tf.insights.inspector import Inspector
from ut_tf.insights.rendering import to_html, to_json
from ut_tf.notices import worded

MOST_BYTES = 64 * 1024
"""Of a request's body."""
_SECONDS = 30
_MOST_DIGITS = 18
_JSON, _HTML = "application/json; charset=utf-8", "text/html; charset=utf-8"
_THINK = "/think"


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
        self._lock = threading.Lock()

    def think(self, body: bytes) -> str:
        """The answer to a POST of {"input": text}, as JSON; one thread at a time.

        Raises:
          UserError: the text is no example of the problem, or several, or too long.
        """
        text = _input(body)
        if not self._lock.acquire(timeout=_SECONDS):
            raise UserError("the model is busy with other inputs: try again later.")
        try:
            examples = self._inspector.read(text, "the input", single=True)
        except Exception as error:
            # A check inside a graph, where no UserError can be raised.
            sentence = marked_in(error)
            if sentence is None:
                raise
            raise UserError(sentence) from error
        finally:
            self._lock.release()
        return to_json({"examples": examples})


class InsightsServer(ThreadingHTTPServer):
    """Serves one document and answers inputs, one after another.

    Args:
      inspector: of the runs.
      document: from ``Inspector.document``; the page opens with it.
      host, port: to listen at; port 0: any free one.

    Raises:
      UserError: host and port cannot be had.
    """

    daemon_threads = True

    def __init__(
        self,
        inspector: Inspector,
        document: dict[str, Any],
        host: str = "localhost",
        port: int = 8008,
    ) -> None:
        self.page = InsightsPage(inspector, document)
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(
                f"`host`={host} and `port`={port} cannot be listened at:"
                f" {getattr(error, 'strerror', None) or error}; give another `port`."
            ) from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing where a client has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Where the page is."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: InsightsServer
    timeout = _SECONDS
    server_version = "ut-insights"
    sys_version = ""

    def do_GET(self) -> None:
        """The page at /."""
        if self.path.partition("?")[0] in ("/", "/index.html"):
            self._send(HTTPStatus.OK, self.server.page.html.encode("utf-8"), _HTML)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path[:80]} here: ask for /.")

    def do_POST(self) -> None:
        """The steps for an input at /think."""
        if self.path.partition("?")[0] != _THINK:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path[:80]} here.")
            return
        length = self.headers.get("Content-Length", "")
        has_length = length.isdecimal() and len(length) < _MOST_DIGITS
        if not has_length or int(length) > MOST_BYTES:
            # What follows is not read, so the connection cannot be used again.
            self.close_connection = True
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                if length.isdecimal()
                else HTTPStatus.LENGTH_REQUIRED,
                f"a request of {length[:_MOST_DIGITS] or 'unknown'} bytes: expected at most"
                f" {MOST_BYTES}.",
            )
            return
        body = self.rfile.read(int(length))
        try:
            answer = self.server.page.think(body)
        except Exception as error:
            self._tell(error)
            return
        self._send(HTTPStatus.OK, answer.encode("utf-8"), _JSON)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: standard error is for what the user should know."""

    def _tell(self, error: Exception) -> None:
        """Answers with a user's mistake, or else prints the trace of a bug."""
        if isinstance(error, UserError):
            self._refuse(HTTPStatus.BAD_REQUEST, " ".join(worded(str(error)).split()))
            return
        traceback.print_exception(error)
        self._refuse(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "the model failed; what the server printed says where.",
        )

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._send(status, json.dumps({"error": sentence}).encode("utf-8"), _JSON)

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)


def _input(body: bytes) -> str:
    """The text in {"input": text}."""
    if len(body) > MOST_BYTES:
        raise UserError(f"the request has {len(body)} bytes: expected at most {MOST_BYTES}.")
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        request = None
    text = request.get("input") if isinstance(request, dict) else None
    if not isinstance(text, str):
        raise UserError('the request is not JSON of the form {"input": "text"}.')
    return text
