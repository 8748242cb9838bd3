"""A web server for a few clients: local unless told otherwise, and within limits.

::

    with WebServer(routed({("GET", "/"): page}), "ut-insights", port=8008) as server:
        print(server.address)
        ...                    # until it is to end

Each connection has a thread. The end is orderly: no new connections, then the answers to all
requests that have arrived, then the sockets are closed. It takes a bounded time, whatever a client
sends or a model computes.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import ThreadingHTTPServer
from typing import Any, Self

from ut_tf.errors import UserError
from ut_tf.web.connection import Connection, Service
from ut_tf.web.hosts import Hosts
from ut_tf.web.replies import JSON, Answer, Limits, error_json

LOCAL = "127.0.0.1"
LONGEST_END = 15.0
"""Seconds of the end of a server; whoever runs servers kills those that take 30."""
_ARRIVING_SECONDS = 2.0
_BUSY = error_json("all connections of the server are in use: try again later").encode()
_BUSY_HEAD = (
    f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {JSON}\r\n"
    f"Content-Length: {len(_BUSY)}\r\nConnection: close\r\n\r\n"
).encode()


class WebServer:
    """A context in which requests are answered.

    Args:
      answer: answers each request; called from several threads.
      name: of the program.
      host: address to listen at; 127.0.0.1: this machine alone.
      port: 0: any that is free.
      allowed_hosts: names besides `host` and localhost under which the server answers; "*": any.
      limits: of requests.
      report: called with the trace of an error that is not a client's.

    Raises:
      UserError: the address cannot be listened at, or one of `allowed_hosts` is no name.
    """

    def __init__(
        self,
        answer: Answer,
        name: str,
        host: str = LOCAL,
        port: int = 0,
        allowed_hosts: Sequence[str] = (),
        limits: Limits | None = None,
        report: Callable[[str], None] = print,
    ) -> None:
        self.limits = limits or Limits()
        host = host.strip("[]")
        self._service = Service(name, answer, Hosts(host, allowed_hosts), self.limits, report)
        try:
            self._listener = _Listener(host, port, self._service)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise UserError(
                f"`port`={port} of `host`={host} cannot be listened at ({reason}): name another"
                " one; 0 is any free port."
            ) from error
        self._answers = False
        self.port = self._listener.server_port
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True).start()
        self._answers = True
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def stopping(self) -> threading.Event:
        """Set when nothing new is accepted any more."""
        return self._service.stopping

    def stop(self) -> None:
        """Answers all requests that have arrived, within ``LONGEST_END``, and ends; outside the
        context it closes the port alone.
        """
        if self._answers:
            self._listener.shutdown()
            self._listener.accept_waiting()
            # A request that was sent with its connection has arrived by then.
            time.sleep(0.1)
            self.stopping.set()
            self._service.arriving.wait(_ARRIVING_SECONDS)
            self._service.answering.wait(LONGEST_END - _ARRIVING_SECONDS)
            self._answers = False
        self._listener.server_close()


class _Listener(ThreadingHTTPServer):
    """Accepts connections, a bounded number at a time."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, host: str, port: int, service: Service) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(service.limits.connections)
        self._none_waits = False
        # Texts of the library are worded in a connection's thread as in the one that began.
        self._context = contextvars.copy_context()
        super().__init__((host, port), functools.partial(Connection, service))

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
            self._refuse(request)
            return
        try:
            super().process_request(request, client_address)
        except (RuntimeError, MemoryError):
            # The machine has no room for another thread.
            self._free.release()
            self._refuse(request)

    def _refuse(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            request.sendall(_BUSY_HEAD + _BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            self._context.copy().run(super().process_request_thread, request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a client has gone. What fails in a request is reported there."""
