"""Clients that send or read slowly, or never: they get no more than the time of a request, and do
not hold the end of a server.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.web.servers import SERVERS, answer_of, connection, exchange, request, ut_serve

# Seconds: that of an end within which whoever runs servers kills none.
LONGEST_END = 20.0
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
# As is its answer.
LARGE_BODY = b'{"instances": [' + b",".join([b'"' + b"x" * 7_000 + b'"'] * 1_000) + b"]}"


@contextlib.contextmanager
def dripping(client: socket.socket) -> Iterator[None]:
    """Sends a byte now and then while the context lasts."""
    ended = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            while not ended.wait(0.05):
                client.sendall(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    yield
    ended.set()
    thread.join()


BEGUN = {
    "line": b"",
    "head": HEAD,
    "body": HEAD + b"Content-Length: 10000\r\n\r\n",
    "next head": request("GET", "/healthz", Connection="keep-alive") + HEAD,
}


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_a_request_that_drips_ends_in_time(begun: bytes) -> None:
    with ut_serve(timeout=0.4) as server, connection(server.address) as client:
        client.sendall(begun)
        began = time.monotonic()
        with dripping(client), contextlib.suppress(ConnectionResetError):
            while client.recv(1 << 16):
                pass
        # Twice: a body is awaited, and what comes of it after the answer.
        assert time.monotonic() - began < 2 * 0.4 + 2.0


def test_a_client_that_reads_slowly_gives_its_place_back() -> None:
    with ut_serve(timeout=0.4, connections=1) as server, connection(server.address) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.sendall(request("POST", server.path, LARGE_BODY))
        deadline = time.monotonic() + 5.0
        while exchange(server.address, request("GET", "/")).status == 503:
            assert slow.recv(65_536) and time.monotonic() < deadline
            time.sleep(0.1)


def test_a_body_that_asks_for_leave_is_called_at_once() -> None:
    with ut_serve() as server, connection(server.address) as client:
        client.settimeout(5.0)
        sent = request("POST", server.path, server.body, Expect="100-continue")
        client.sendall(sent.removesuffix(server.body))
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        client.sendall(server.body)
        assert answer_of(client).status == 200


def ends(stop: Callable[[], None]) -> float:
    """Seconds of an end."""
    began = time.monotonic()
    stop()
    return time.monotonic() - began


@pytest.mark.parametrize("kind", ["ut-serve", pytest.param("ut-insights", marks=pytest.mark.slow)])
def test_a_client_that_drips_does_not_hold_the_end(kind: str) -> None:
    with SERVERS[kind]() as server, connection(server.address) as client:
        client.sendall(request("POST", server.path, Content_Length="10000"))
        with dripping(client):
            time.sleep(0.2)
            assert ends(server.stop) < 5.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
def test_a_model_that_never_answers_does_not_hold_the_end(kind: str) -> None:
    gate = threading.Event()
    with SERVERS[kind](gate) as server, connection(server.address) as client:
        client.sendall(request("POST", server.path, server.body))
        while not server.calls:
            time.sleep(0.01)
        assert ends(server.stop) < LONGEST_END
        gate.set()


@pytest.mark.slow
def test_a_client_that_reads_no_answer_does_not_hold_the_end() -> None:
    with ut_serve() as server, connection(server.address) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.sendall(request("POST", server.path, LARGE_BODY))
        time.sleep(1.0)
        assert ends(server.stop) < LONGEST_END
