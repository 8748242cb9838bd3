"""The servers of ut-serve and ut-insights with models of Python functions, as strangers meet them:
at an address, over a socket.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.insights.page import synthetic
from tests.serving.python_model import PythonModel
from ut_tf.insights.served_page import LIMITS, InsightsPage, insights_routes
from ut_tf.serving.batching import Batcher
from ut_tf.serving.endpoints import ModelEndpoints
from ut_tf.web.guard import Limits
from ut_tf.web.server import WebServer


class Running(NamedTuple):
    """A server.

    Fields:
      address: http://127.0.0.1:PORT.
      path: that takes a POST.
      body: of a POST that the model answers.
      calls: examples of each call of the model.
      log: what the server has written to its log.
      stop: ends it.
    """

    address: str
    path: str
    body: bytes
    calls: list[Any]
    log: list[str]
    stop: Callable[[], None]


class Answer(NamedTuple):
    """Status, headers (lower case) and body of an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """The sentence of an error."""
        (sentence,) = json.loads(self.body).values()
        return str(sentence)


def upper(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Texts in capitals; "fail" raises an error that quotes it."""
    for example in examples:
        if example["inputs"].startswith("fail"):
            raise FloatingPointError(example["inputs"])
    return [{"outputs": example["inputs"].upper(), "scores": 0.5} for example in examples]


@contextlib.contextmanager
def ut_serve(
    gate: threading.Event | None = None, allowed_hosts: Sequence[str] = (), **limits: Any
) -> Iterator[Running]:
    """ut-serve with a model that waits for `gate`."""
    model = PythonModel({"serving_default": (["inputs"], upper)}, gate)
    log: list[str] = []
    server = WebServer(
        ModelEndpoints(lambda: model, Batcher()).routes,
        "ut-serve",
        allowed_hosts=allowed_hosts,
        limits=Limits(**limits),
        report=log.append,
    )
    body = b'{"instances": ["ab"]}'
    with server:
        path = "/v1/models/model:predict"
        yield Running(server.address, path, body, model.calls, log, server.stop)


@contextlib.contextmanager
def ut_insights(
    gate: threading.Event | None = None, allowed_hosts: Sequence[str] = ()
) -> Iterator[Running]:
    """ut-insights with a model that waits for `gate`."""
    calls: list[Any] = []
    log: list[str] = []

    def read(text: str, *_: Any, **__: Any) -> list[str]:
        calls.append(text)
        assert gate is None or gate.wait(20)
        return [text.upper()]

    thinker = SimpleNamespace(hint="a text", model=SimpleNamespace(spec=SimpleNamespace(inputs="")))
    inspector: Any = SimpleNamespace(thinkers=[thinker], read=read)
    page = InsightsPage(inspector, synthetic.document("text", []))
    with WebServer(
        insights_routes(lambda: page),
        "ut-insights",
        allowed_hosts=allowed_hosts,
        limits=LIMITS,
        report=log.append,
    ) as server:
        yield Running(server.address, "/think", b'{"input": "ab"}', calls, log, server.stop)


SERVERS = {"ut-serve": ut_serve, "ut-insights": ut_insights}


@contextlib.contextmanager
def connection(address: str, timeout: float = 20.0) -> Iterator[socket.socket]:
    """A connection to a server."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout) as client:
        yield client


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request; an underscore in a header's name is a hyphen."""
    given = {"Host": "localhost", "Content-Length": str(len(body)), "Connection": "close"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answer_of(client: socket.socket) -> Answer:
    """All that a server sends until it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(1 << 16):
            received += part
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)


def exchange(address: str, sent: bytes) -> Answer:
    """The answer to bytes on a connection of their own."""
    with connection(address) as client:
        # A server need not read all of what it refuses.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(sent)
        return answer_of(client)
