"""What stands before the routes of a server: limits of size and time, the names that it answers to,
a log of requests, and numbers for Prometheus.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ut_tf.errors import shown
from ut_tf.notices import printable, worded
from ut_tf.web.hosts import Hosts

MOST_HEAD_BYTES = 65_536
REST_SECONDS = 2.0
"""Seconds in which what a client still sends is read: a closed socket would take the answer from
it.
"""
_MOST_HEADERS = 100
_MOST_OF_A_MESSAGE = 1_000
_MOST_DIGITS = 18
_SMALL_BODY_BYTES = 65_536
_LARGE_BODIES = 8
# Of what has not arrived whole when the end of a server begins.
_ARRIVING_SECONDS = 2.0
_SECURITY_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


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
    """A middleware of ASGI: it reads each request whole and hands it on, or refuses it.

    Args:
      app: answers the requests; reports each of its errors by raising it after its answer.
      hosts: the names of the server.
      limits: of requests.
      report: called with the trace of an error that is not a client's.
      log: called with a line about each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Hosts,
        limits: Limits,
        report: Callable[[str], None],
        log: Callable[[str], None],
    ) -> None:
        self.limits = limits
        self.ending = False
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "http_requests",
            "Requests by their answer.",
            ["route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "http_request_seconds",
            "From the head of a request to its answer.",
            ["route"],
            registry=self.registry,
        )
        self._app = app
        self._hosts = hosts
        self._report = report
        self._log = log
        self._room = _LARGE_BODIES * limits.body_bytes
        self._arriving: set[asyncio.Timeout] = set()
        # Texts of the library are worded in requests as here.
        self._context = contextvars.copy_context()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        exchange = _Exchange(self, receive, send)
        try:
            answer = self._answer(scope, exchange)
            await asyncio.create_task(answer, context=self._context.copy())
        except Exception:
            self._report(traceback.format_exc())
        finally:
            route = getattr(scope.get("endpoint"), "__name__", "none")
            seconds = time.monotonic() - began
            self._requests.labels(route, exchange.status).inc()
            self._seconds.labels(route).observe(seconds)
            client = (scope["client"] or ["unknown"])[0]
            line = f"{scope['method']} {shown(scope['raw_path'].decode('latin-1'))}"
            self._log(
                f'{client} - "{line} HTTP/{scope["http_version"]}" {exchange.status} {seconds:.3f}s'
            )

    def end(self) -> None:
        """Gives two seconds to what is arriving: the server ends."""
        self.ending = True
        latest = asyncio.get_running_loop().time() + _ARRIVING_SECONDS
        for timeout in self._arriving:
            if not timeout.expired():
                timeout.reschedule(min(timeout.when() or latest, latest))

    async def _answer(self, scope: Scope, exchange: _Exchange) -> None:
        try:
            size = self._checked_size(scope)
            with self._taken(size):
                body = await self._body(exchange, size)
                await self._app(scope, exchange.replay(body), exchange.send)
        except HTTPException as error:
            await self._refuse(error, exchange)

    def _checked_size(self, scope: Scope) -> int:
        """The size of the body that is announced, after the check of who asks whom."""
        headers = Headers(scope=scope)
        head = len(scope["raw_path"]) + len(scope["query_string"])
        head += sum(len(name) + len(value) + 4 for name, value in headers.raw)
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
    def _taken(self, size: int) -> Iterator[None]:
        """Takes room for a body in the context; small bodies always have it."""
        size = size if size > _SMALL_BODY_BYTES else 0
        if size > self._room:
            raise HTTPException(503, "Too many large requests at once: try again later")
        self._room -= size
        try:
            yield
        finally:
            self._room += size

    async def _body(self, exchange: _Exchange, size: int) -> bytes:
        parts = []
        try:
            async with self._within(self.limits.timeout):
                while exchange.more_body:
                    parts.append((await exchange.receive()).get("body", b""))
        except TimeoutError as error:
            seconds = self.limits.timeout
            raise HTTPException(
                408, f"The body did not arrive within {seconds:g} seconds"
            ) from error
        body = b"".join(parts)
        if len(body) < size:
            raise HTTPException(400, f"The body ends after {len(body)} of {size} bytes")
        return body

    async def _refuse(self, error: HTTPException, exchange: _Exchange) -> None:
        """Sends an error and ends the connection: a body may follow that is not read."""
        response = error_response(error.status_code, error.detail)
        response.headers["Connection"] = "close"
        start = {"status": response.status_code, "headers": response.raw_headers}
        await exchange.send({"type": "http.response.start", **start})
        part = {"type": "http.response.body", "body": response.body, "more_body": True}
        await exchange.send(part)
        with contextlib.suppress(TimeoutError):
            async with self._within(0.0 if self.ending else REST_SECONDS):
                while exchange.more_body:
                    await exchange.receive()
        await exchange.send({"type": "http.response.body"})

    @contextlib.asynccontextmanager
    async def _within(self, seconds: float) -> AsyncIterator[None]:
        """Raises TimeoutError after a time, which the end of the server shortens."""
        async with asyncio.timeout(seconds) as timeout:
            self._arriving.add(timeout)
            try:
                yield
            finally:
                self._arriving.discard(timeout)


def error_response(status: int, message: str) -> JSONResponse:
    """The answer {"error": message}: one line of at most 1,000 characters, whatever it quotes."""
    line = shown(" ".join(worded(message).split()), _MOST_OF_A_MESSAGE)
    return JSONResponse({"error": printable(line)}, status)


class _Exchange:
    """A request that arrives, and its answer.

    Fields:
      status: of the answer; 499: the client went before.
      more_body: whether the body has not arrived whole.
    """

    def __init__(self, guard: Guard, receive: Receive, send: Send) -> None:
        self.status = 499
        self.more_body = True
        self._guard = guard
        self._receive = receive
        self._send = send

    async def receive(self) -> Message:
        """The next part of the body."""
        message = await self._receive()
        self.more_body = message.get("more_body", False)
        return message

    def replay(self, body: bytes) -> Receive:
        """Receives a body that has arrived."""
        left = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return left.pop() if left else await self._receive()

        return receive

    async def send(self, message: Message) -> None:
        """Sends a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers.update(_SECURITY_HEADERS)
            if self._guard.ending:
                headers["Connection"] = "close"
        await self._send(message)
