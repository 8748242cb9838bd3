"""A web server for a few clients: local unless told otherwise, and within limits. What ut-serve
answers is in serving/endpoints.py.

::

    with WebServer([Route("/", page)], "ut-insights", port=8008) as server:
        print(server.address)
        ...                    # until it is to end

uvicorn answers in a thread of its own. Neither that nor the threads that it starts hold the end of
the process. The end is orderly: no new connections, then the answers to all requests that have
arrived, then the sockets are closed. It takes a bounded time, whatever a client sends or a model
computes.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Self

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, Histogram, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from uvicorn.protocols.http.h11_impl import H11Protocol

from ut_tf.errors import UserError
from ut_tf.version import __version__
from ut_tf.web.guard import MOST_HEAD_BYTES, Guard, Limits, error_response
from ut_tf.web.hosts import Hosts

LOCAL = "127.0.0.1"
LONGEST_END = 15
"""Seconds of the end of a server; whoever runs servers kills those that take 30."""
_JOIN_SECONDS = 1.0
_HEADERS = [("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store")]


class WebServer:
    """A context in which requests are answered, also at /healthz and /metrics.

    Args:
      routes: of Starlette.
      name: of the program.
      host: address to listen at; 127.0.0.1: this machine alone.
      port: 0: any that is free.
      allowed_hosts: names besides `host` and localhost under which the server answers; "*": any.
      limits: of requests.
      report: called with the trace of an error that is not a client's.
      access_log: whether to report a line about each request, too.
      metrics: further ones.

    Raises:
      UserError: the address cannot be listened at, or one of `allowed_hosts` is no name.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        name: str,
        host: str = LOCAL,
        port: int = 0,
        allowed_hosts: Sequence[str] = (),
        limits: Limits | None = None,
        report: Callable[[str], None] = print,
        access_log: bool = False,
        metrics: Sequence[Histogram] = (),
    ) -> None:
        host = host.strip("[]")
        own = [Route("/healthz", healthz), Route("/metrics", self.metrics)]
        hosts, limits = Hosts(host, allowed_hosts), limits or Limits()
        self.guard = Guard(Router([*own, *routes]), hosts, limits, report, access_log)
        config = uvicorn.Config(
            self.guard,
            loop="asyncio",
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            headers=[("Server", f"{name}/{__version__}"), *_HEADERS],
            h11_max_incomplete_event_size=MOST_HEAD_BYTES,
            timeout_graceful_shutdown=LONGEST_END,
        )
        self._server = _Server(config)
        connections = Gauge("http_connections", "Open.", registry=self.guard.registry)
        connections.set_function(lambda: len(self._server.server_state.connections))
        for metric in metrics:
            self.guard.registry.register(metric)
        self._socket = _listen(host, port)
        self._thread: threading.Thread | None = None
        self.port = self._socket.getsockname()[1]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def __enter__(self) -> Self:
        arguments = ([self._socket],)
        self._thread = threading.Thread(target=self._server.run, args=arguments, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Answers all requests that have arrived, within ``LONGEST_END``, and ends; outside the
        context it closes the port alone.
        """
        if self._thread is not None:
            self._server.should_exit = True
            self._thread.join(LONGEST_END + _JOIN_SECONDS)
        self._socket.close()

    async def metrics(self, request: Request) -> Response:
        """The numbers that Prometheus reads."""
        del request
        numbers = generate_latest(self.guard.registry)
        return Response(numbers, media_type=CONTENT_TYPE_LATEST)


async def healthz(request: Request) -> Response:
    """Answers that the server does."""
    del request
    return PlainTextResponse("ok")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (")[0].lower()
        raise UserError(
            f"`port`={port} of `host`={host} cannot be listened at ({reason}): name another"
            " one; 0 is any free port."
        ) from error
    # Its connections have it, too: head and body of an answer are sent one by one.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Server(uvicorn.Server):
    """uvicorn, which answers what was sent before its end, and then waits for nobody."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        # A request that was sent with its connection has arrived by then.
        await asyncio.sleep(0.1)
        assert isinstance(self.config.app, Guard)
        self.config.app.end()
        await super().shutdown(sockets)
        for connection in [*self.server_state.connections]:
            connection.transport.abort()


class _Connection(H11Protocol):
    """uvicorn's connection, of which there is a number, with deadlines for what does not reach the
    routes: the head of a request, and the reading of an answer.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        assert isinstance(self.config.app, Guard)
        self._limits = self.config.app.limits
        self._deadline = self.loop.call_later(self._limits.timeout, self._expire)
        if len(self.connections) > self._limits.connections:
            self._refuse(503, "all connections of the server are in use: try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that sends no more may still read its answer."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        self.cycle.more_body = self.cycle.keep_alive = False
        self.cycle.message_event.set()
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()
        self._deadline.cancel()
        self._deadline = self.loop.call_later(self._limits.timeout, self._expire)

    def send_400_response(self, msg: str) -> None:
        """Refuses what is not HTTP."""
        self._refuse(400, msg)

    def _expire(self) -> None:
        # Requests that are being answered have deadlines of their own.
        if self.cycle is None or self.cycle.response_complete or self.flow.write_paused:
            self.transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        response = error_response(status, message)
        lines = [b"HTTP/1.1 %d Refused" % status, b"connection: close"]
        lines += [b"%s: %s" % header for header in response.raw_headers]
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()
