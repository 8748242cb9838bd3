"""A server of TensorFlow Serving's REST protocol, and of a page to type into.

How it works: each connection has a thread, which reads a request within limits of size and time and
waits for the answer of a ``Batcher``. The end is orderly: no new connections, then the answers to
all requests that have arrived, then the sockets are closed. Needs no TensorFlow.
"""

from __future__ import annotations

import contextlib
import html
import io
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from ut_tf.errors import UserError
from ut_tf.serving import rest_messages
from ut_tf.serving.batching import Batcher, Model
from ut_tf.serving.rest_messages import RequestError
from ut_tf.version import __version__

DEFAULT_NAME = "model"
_JSON = "application/json; charset=utf-8"
_HTML = "text/html; charset=utf-8"
# The page has its script and style in itself and asks nobody else.
_PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)

_INSIGHTS = {("GET", "/insights/"): _HTML, ("POST", "/insights/think"): _JSON}
_LINK = '<p><a href="insights/">What the model computes at every step</a></p>'


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Fields:
      body_bytes: size of a request's body.
      timeout: seconds until a request must have arrived, and again until its answer is there.
      connections: open at the same time.
    """

    body_bytes: int = 8_000_000
    timeout: float = 60.0
    connections: int = 512


class ModelServer:
    """A context in which a model is served.

    Args:
      model: returns the version to ask, each time anew.
      batcher: answers the requests.
      name: of the model, in the paths of requests; other than the default, the page's title.
      host: address to listen at; 127.0.0.1: this machine alone.
      port: 0: any that is free.
      limits: of requests.
      report: called with the trace of an error that is not a client's.
      insights: returns the page of insights at /insights/ (GET), and what is to be seen of an input
        (POST of its body to /insights/think), as text; None: there is no such page.

    Raises:
      UserError: the address cannot be listened at.
    """

    def __init__(
        self,
        model: Callable[[], Model],
        batcher: Batcher,
        name: str = DEFAULT_NAME,
        host: str = "127.0.0.1",
        port: int = 8501,
        limits: Limits | None = None,
        report: Callable[[str], None] = print,
        insights: Callable[[str, bytes], str] | None = None,
    ) -> None:
        self.model = model
        self.batcher = batcher
        self.name = name
        self.limits = limits or Limits()
        self.report = report
        self.insights = insights
        self.stopping = threading.Event()
        self._busy = 0
        self._idle = threading.Condition()
        try:
            self._listener = _Listener(host, port, self)
        except OSError as error:
            raise UserError(
                f"`port`={port} of `host`={host} cannot be listened at"
                f" ({(error.strerror or str(error)).lower()}): name another one; 0 is any free"
                " port."
            ) from error
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._listener.server_address[1]}"

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Answers all requests that have arrived, and ends."""
        self._listener.shutdown()
        self._listener.accept_waiting()
        # A request that was sent with its connection has arrived by then.
        time.sleep(0.1)
        self.stopping.set()
        with self._idle:
            self._idle.wait_for(lambda: not self._busy, timeout=2 * self.limits.timeout)
        self.batcher.close()
        self._listener.server_close()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """A context that ``stop`` waits for."""
        with self._idle:
            self._busy += 1
        try:
            yield
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def reply(self, method: str, path: str, body: bytes) -> tuple[str, str]:
        """The answer to a request, and its type.

        Raises:
          RequestError: the answer is an error.
        """
        if method == "GET" and path.partition("?")[0] in ("/", "/index.html"):
            return self._page(), _HTML
        if self.insights is not None and (method, path.partition("?")[0]) in _INSIGHTS:
            try:
                return self.insights(method, body), _INSIGHTS[method, path.partition("?")[0]]
            except UserError as error:
                raise RequestError(400, " ".join(str(error).split())) from error
        target = rest_messages.parse_path(method, path)
        model = self.model()
        if target.model != self.name or target.version not in (None, model.version):
            asked = "Latest" if target.version is None else "Specific"
            version = "" if target.version is None else f", {target.version}"
            raise RequestError(
                404,
                f"Servable not found for request: {asked}({target.model}{version}); the model"
                f" {self.name} is served in version {model.version}",
            )
        if target.action == "status":
            return rest_messages.status_json(model.version), _JSON
        if target.action == "metadata":
            return rest_messages.metadata_json(self.name, model.version, model.signatures), _JSON
        asked_for = rest_messages.parse_predict(body, model.signatures)
        outputs = self.batcher.answer(
            model, asked_for.signature, asked_for.columns, self.limits.timeout
        )
        return rest_messages.predict_json(outputs, asked_for.by_rows), _JSON

    def _page(self) -> str:
        page = files("ut_tf.serving").joinpath("page.html").read_text(encoding="utf-8")
        title = self.model().title if self.name == DEFAULT_NAME else ""
        page = page.replace("{{title}}", html.escape(title or self.name))
        page = page.replace("{{model}}", html.escape(self.name, quote=True))
        return page.replace("{{insights}}", "" if self.insights is None else _LINK)


class _Listener(ThreadingHTTPServer):
    """Accepts connections, a bounded number at a time."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, owner: ModelServer) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.owner = owner
        self._free = threading.BoundedSemaphore(owner.limits.connections)
        self._none_waits = False
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Binds without asking a name server for this machine's name."""
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def accept_waiting(self) -> None:
        """Accepts the connections that wait at the socket already."""
        self.timeout = 0.0
        while not self._none_waits:
            self.handle_request()

    def handle_timeout(self) -> None:
        self._none_waits = True

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a client has gone. What fails in a request is reported there."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = f"ut-serve/{__version__}"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self._reader = _TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        self._reader.allow(self._limits.timeout)
        self._entered = contextlib.ExitStack()
        with self._entered:
            super().handle_one_request()

    def parse_request(self) -> bool:
        # The first line has arrived: from here on it is a request.
        self._entered.enter_context(self.server.owner.busy())
        self._reader.allow(self._limits.timeout)
        return super().parse_request()

    def handle_expect_100(self) -> bool:
        try:
            self._body_size()
        except RequestError as error:
            self.send_error(error.status, str(error))
            return False
        return super().handle_expect_100()

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends an error in the protocol's form and ends the connection."""
        del explain
        self.close_connection = True
        self._send(code, rest_messages.error_json(message or self.responses[code][0]), _JSON)
        self._read_rest()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""

    @property
    def _limits(self) -> Limits:
        return self.server.owner.limits

    def _answer(self, method: str) -> None:
        owner = self.server.owner
        try:
            body = self._body()
        except RequestError as error:
            # What is left of the body would be read as the next request.
            self.send_error(error.status, str(error))
            return
        try:
            content, kind = owner.reply(method, self.path, body)
        except RequestError as error:
            self._send(error.status, rest_messages.error_json(str(error)), _JSON)
        except Exception as error:
            owner.report(traceback.format_exc())
            message = f"{type(error).__name__}: the server's log says more"
            self._send(500, rest_messages.error_json(message), _JSON)
        else:
            self._send(200, content, kind)

    def _body(self) -> bytes:
        size = self._body_size()
        try:
            body = self.rfile.read(size)
        except TimeoutError as error:
            raise RequestError(
                408, f"The body did not arrive within {self._limits.timeout:g} seconds"
            ) from error
        if len(body) < size:
            raise RequestError(400, f"The body ends after {len(body)} of {size} bytes")
        return body

    def _body_size(self) -> int:
        for header in ("Transfer-Encoding", "Content-Encoding"):
            if self.headers.get(header, "identity").lower() != "identity":
                raise RequestError(
                    411 if header[0] == "T" else 415,
                    f"{header}: {self.headers[header]} is not read here; send the body as it is,"
                    " with its Content-Length",
                )
        given = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if not given.isdecimal():
            raise RequestError(411, "Content-Length: expected the number of bytes of the body")
        limit = self._limits.body_bytes
        if len(given) > 18 or int(given) > limit:
            raise RequestError(
                413, f"The body has {given} bytes: expected at most {limit}; send fewer texts"
            )
        return int(given)

    def _send(self, status: int, content: str, kind: str) -> None:
        body = content.encode("utf-8", "replace")
        self.connection.settimeout(self._limits.timeout)
        if self.server.owner.stopping.is_set():
            self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if kind == _HTML and not self.path.startswith("/insights/"):
            self.send_header("Content-Security-Policy", _PAGE_POLICY)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _read_rest(self) -> None:
        """Reads what the client still sends, for a moment: a closed socket would take the answer
        from it.
        """
        self._reader.allow(2.0)
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while self.rfile.read1(65536):
                pass


class _TimedReader(io.RawIOBase):
    """What a client sends, until a deadline: one byte now and then does not postpone it."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self._deadline = 0.0

    def allow(self, seconds: float) -> None:
        """Sets the deadline."""
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)
