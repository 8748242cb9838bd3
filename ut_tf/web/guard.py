"""What stands before the routes of a server: limits of size and time, the names that it answers to,
a log of requests, and numbers for Prometheus.
"""

import asyncio
import contextlib
import contextvars
import math
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ut_tf.errors import shown
from ut_tf.notices import printable, worded
from ut_tf.web.hosts import Hosts

MOST_HEAD_BYTES = 65_536
_MOST_HEADERS = 100
_MOST_DIGITS = 18
_MOST_OF_A_MESSAGE = 1_000
_SMALL_BODY_BYTES = 65_536
_LARGE_BODIES = 8
# Of what has not arrived whole when the end of a server begins.
_ARRIVING_SECONDS = 2.0


@dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Fields:
      body_bytes: size of a request's body.
      timeout: seconds for each of the head of a request, its body, its answer, and its reading.
      connections: open at the same time.
    """

    body_bytes: int = 8_000_000
    timeout: float = 60.0
    connections: int = 512


class Guard:
    """A middleware of ASGI: it hands requests on within their limits, and answers errors as JSON.

    Args:
      app: answers the requests; its HTTPException is the answer.
      hosts: the names of the server.
      limits: of requests.
      report: called with the trace of an error that is not a client's.
      access_log: whether to report a line about each request, too.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Hosts,
        limits: Limits,
        report: Callable[[str], None],
        access_log: bool,
    ) -> None:
        self.limits = limits
        self.latest = math.inf
        self.arriving: set[asyncio.Timeout] = set()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "http_requests", "Requests answered.", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "http_request_seconds", "From head to answer.", ["route"], registry=self.registry
        )
        self._app = app
        self._hosts = hosts
        self._report = report
        self._access_log = access_log
        self._room = _LARGE_BODIES * limits.body_bytes
        # Texts of the library are worded in requests as here.
        self._context = contextvars.copy_context()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        scope["app"] = self
        deadline = asyncio.get_running_loop().time() + self.limits.timeout
        exchange = _Exchange(self, receive, send, deadline)
        answer = self._answer(scope, exchange)
        try:
            await asyncio.create_task(answer, context=self._context.copy())
        finally:
            self._note(scope, exchange.status, time.monotonic() - began)

    @property
    def ending(self) -> bool:
        """Whether the server ends."""
        return self.latest < math.inf

    def end(self) -> None:
        """Gives two seconds to what is arriving: the server ends."""
        self.latest = asyncio.get_running_loop().time() + _ARRIVING_SECONDS
        for timeout in self.arriving:
            if not timeout.expired():
                timeout.reschedule(min(timeout.when() or self.latest, self.latest))

    async def _answer(self, scope: Scope, exchange: "_Exchange") -> None:
        try:
            exchange.size = self._size_of_body(scope)
            with self._take(exchange.size):
                await self._app(scope, exchange.receive, exchange.send)
        except HTTPException as error:
            response = error_response(error.status_code, error.detail)
            await response(scope, exchange.receive, exchange.send)
        except Exception as error:
            self._report(traceback.format_exc())
            response = error_response(500, f"{type(error).__name__}: the server's log says more")
            await response(scope, exchange.receive, exchange.send)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Counts a request, and reports a line about it."""
        route = getattr(scope.get("endpoint"), "__name__", "none")
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)
        if self._access_log:
            client, path = scope["client"], scope["raw_path"].decode("latin-1")
            line = f"{scope['method']} {shown(path)} HTTP/{scope['http_version']}"
            self._report(f'{client and client[0]} - "{line}" {status} {seconds:.3f}s')

    def _size_of_body(self, scope: Scope) -> int:
        """The size of the body that is announced, after the check of who asks whom."""
        headers = Headers(scope=scope)
        head = len(scope["raw_path"]) + len(scope["query_string"])
        head += sum(len(name) + len(value) for name, value in headers.raw)
        if len(headers.raw) > _MOST_HEADERS or head > MOST_HEAD_BYTES:
            raise HTTPException(431, "The head of the request is too large")
        self._hosts.check(scope["method"], headers)
        for name, status in (("Transfer-Encoding", 411), ("Content-Encoding", 415)):
            given = ", ".join(headers.getlist(name))
            if given.lower() not in ("", "identity"):
                raise HTTPException(
                    status,
                    f"{name}: {shown(given)} is not read here; send the body as it is, with its"
                    " Content-Length",
                )
        given = headers.get("Content-Length", "0")
        limit = self.limits.body_bytes
        if len(given) > _MOST_DIGITS or int(given) > limit:
            raise HTTPException(
                413,
                f"The body has {shown(given)} bytes: expected at most {limit}; send fewer texts",
            )
        return int(given)

    @contextlib.contextmanager
    def _take(self, size: int) -> Iterator[None]:
        """Takes room for a body in the context; small bodies always have it."""
        size = size if size > _SMALL_BODY_BYTES else 0
        if size > self._room:
            raise HTTPException(503, "Too many large requests at once: try again later")
        self._room -= size
        try:
            yield
        finally:
            self._room += size


def error_response(status: int, message: str) -> JSONResponse:
    """The answer {"error": message}: one line of at most 1,000 characters, whatever it quotes."""
    line = shown(" ".join(worded(message).split()), _MOST_OF_A_MESSAGE)
    return JSONResponse({"error": printable(line)}, status)


@dataclass
class _Exchange:
    """A request and its answer.

    Fields:
      guard: whose limits hold.
      receive_part, send_part: of the server.
      deadline: time of the event loop at which the body must have arrived.
      size, arrived: bytes of the body.
      status: of the answer; 499: the client went before.
    """

    guard: Guard
    receive_part: Receive
    send_part: Send
    deadline: float
    size: int = 0
    arrived: int = 0
    status: int = 499

    async def receive(self) -> Message:
        """The next part of the body."""
        timeout = asyncio.timeout_at(min(self.deadline, self.guard.latest))
        self.guard.arriving.add(timeout)
        try:
            async with timeout:
                message = await self.receive_part()
        except TimeoutError as error:
            seconds = self.guard.limits.timeout
            told = f"The body did not arrive within {seconds:g} seconds"
            raise HTTPException(408, told) from error
        finally:
            self.guard.arriving.discard(timeout)
        self.arrived += len(message.get("body", b""))
        is_lost = message["type"] == "http.disconnect"
        if is_lost or (self.arrived < self.size and not message.get("more_body")):
            raise HTTPException(400, f"The body ends after {self.arrived} of {self.size} bytes")
        return message

    async def send(self, message: Message) -> None:
        """Sends a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.guard.ending:
                message["headers"].append((b"connection", b"close"))
        await self.send_part(message)
