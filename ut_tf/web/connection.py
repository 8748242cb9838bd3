"""One connection of a client: reads its requests within limits of size and time, and answers."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler
from typing import Any

from ut_tf.notices import worded
from ut_tf.version import __version__
from ut_tf.web.hosts import Hosts
from ut_tf.web.replies import Answer, Limits, Reply, RequestError, error_json, shown

_MOST_DIGITS = 18
_MOST_HEAD_BYTES = 65_536
_REST_SECONDS = 2.0
_SMALL_BODY_BYTES = 65_536
_LARGE_BODIES = 8


class Room:
    """Bytes of all bodies that are read or answered at the same time.

    Args:
      size: bytes.
    """

    def __init__(self, size: int) -> None:
        self._left = size
        self._changed = threading.Lock()

    @contextlib.contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Takes `size` bytes in the context; small bodies always have room.

        Raises:
          RequestError: others have taken it.
        """
        size = size if size > _SMALL_BODY_BYTES else 0
        with self._changed:
            if size > self._left:
                raise RequestError(503, "Too many large requests at once: try again later")
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size


class Pending:
    """A context for each of the requests that the end of a server waits for."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        """Waits until none is left, at most `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count, timeout)


@dataclass
class Service:
    """What the connections of a server share.

    Fields:
      name: of the program, in each answer.
      answer: answers requests.
      hosts: the names of the server.
      limits: of requests.
      report: called with the trace of an error that is not a client's.
      arriving: the requests of which a part has arrived.
      answering: the requests that have arrived and are being answered.
      stopping: set when a connection ends with its current request.
    """

    name: str
    answer: Answer
    hosts: Hosts
    limits: Limits
    report: Callable[[str], None]
    arriving: Pending = field(default_factory=Pending)
    answering: Pending = field(default_factory=Pending)
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.room = Room(_LARGE_BODIES * self.limits.body_bytes)


class Connection(BaseHTTPRequestHandler):
    """Answers the requests of one client.

    Args:
      service: what all connections share.
      arguments: of the base class.
    """

    protocol_version = "HTTP/1.1"
    sys_version = ""
    disable_nagle_algorithm = True

    def __init__(self, service: Service, *arguments: Any) -> None:
        self.service = service
        # The base class answers at once.
        super().__init__(*arguments)

    def setup(self) -> None:
        super().setup()
        self._reader = _TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        self._reader.allow(self.service.limits.timeout)
        self._arriving = contextlib.ExitStack()
        with self._arriving:
            super().handle_one_request()

    def parse_request(self) -> bool:
        # The first line has arrived: from here on it is a request.
        self._arriving.enter_context(self.service.arriving)
        self._reader.allow(self.service.limits.timeout, _MOST_HEAD_BYTES)
        return super().parse_request()

    def handle_expect_100(self) -> bool:
        try:
            self._checked_size()
        except RequestError as error:
            self.send_error(error.status, str(error))
            return False
        return super().handle_expect_100()

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends an error as JSON and ends the connection."""
        del explain
        self.close_connection = True
        self._send(_error(code, message or self.responses[code][0]))
        self._read_rest()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""

    def version_string(self) -> str:
        """The program and its version."""
        return f"{self.service.name}/{__version__}"

    def _answer(self, method: str) -> None:
        with contextlib.ExitStack() as held:
            try:
                size = self._checked_size()
                held.enter_context(self.service.room.taken(size))
                body = self._body(size)
            except RequestError as error:
                # What is left of the body would be read as the next request.
                self.send_error(error.status, str(error))
                return
            held.enter_context(self.service.answering)
            self._arriving.close()
            self._send(self._reply(method, body))

    def _reply(self, method: str, body: bytes) -> Reply:
        try:
            return self.service.answer(method, self.path, body)
        except RequestError as error:
            return _error(error.status, str(error))
        except Exception as error:
            self.service.report(traceback.format_exc())
            return _error(500, f"{type(error).__name__}: the server's log says more")

    def _checked_size(self) -> int:
        """The size of the body that is announced, after the check of who asks whom."""
        is_needed = self.request_version >= "HTTP/1.1"
        self.service.hosts.check(self.command, self.headers, is_needed)
        for header in ("Transfer-Encoding", "Content-Encoding"):
            given = ", ".join(self.headers.get_all(header, ["identity"]))
            if given.lower() != "identity":
                raise RequestError(
                    411 if header[0] == "T" else 415,
                    f"{header}: {shown(given)} is not read here; send the body as it is, with its"
                    " Content-Length",
                )
        default = ["0"] if self.command == "GET" else []
        # Two would be two readings of where the next request begins.
        given = ", ".join(self.headers.get_all("Content-Length", default))
        if not given.isdecimal():
            raise RequestError(411, "Content-Length: expected the number of bytes of the body")
        limit = self.service.limits.body_bytes
        if len(given) > _MOST_DIGITS or int(given) > limit:
            raise RequestError(
                413,
                f"The body has {shown(given)} bytes: expected at most {limit}; send fewer texts",
            )
        return int(given)

    def _body(self, size: int) -> bytes:
        self._reader.most = None
        try:
            body = self.rfile.read(size)
        except TimeoutError as error:
            seconds = self.service.limits.timeout
            raise RequestError(
                408, f"The body did not arrive within {seconds:g} seconds"
            ) from error
        if len(body) < size:
            raise RequestError(400, f"The body ends after {len(body)} of {size} bytes")
        return body

    def _send(self, reply: Reply) -> None:
        body = reply.content.encode("utf-8", "replace")
        self.connection.settimeout(self.service.limits.timeout)
        if self.service.stopping.is_set():
            self.close_connection = True
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _read_rest(self) -> None:
        """Reads what the client still sends, for a moment: a closed socket would take the answer
        from it.
        """
        self._reader.allow(_REST_SECONDS)
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while self.rfile.read1(65536):
                pass


def _error(status: int, message: str) -> Reply:
    return Reply(error_json(worded(message)), status=status)


class _TimedReader(io.RawIOBase):
    """What a client sends, until a deadline: one byte now and then does not postpone it.

    Fields:
      most: bytes that may still be read; None: any number.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self.most: int | None = None
        self._connection = connection
        self._deadline = 0.0

    def allow(self, seconds: float, most: int | None = None) -> None:
        """Sets the deadline, and how many bytes may be read."""
        self._deadline = time.monotonic() + seconds
        self.most = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        if self.most is not None and self.most <= 0:
            # The base class answers with status 431.
            raise HTTPException("the head of the request is too large")
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        if self.most is not None:
            self.most -= count
        return count
