"""The web server: its limits, the names it answers to, and its end."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from typing import Any

import pytest
import requests
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ut_tf.errors import UserError
from ut_tf.notices import worded_by
from ut_tf.web.guard import Limits
from ut_tf.web.hosts import Hosts
from ut_tf.web.server import WebServer


async def echo(request: Request) -> Response:
    body = await request.body()
    if body == b"fail":
        raise FloatingPointError("not a number")
    if not body:
        raise HTTPException(400, "the `input` is\nempty")
    return PlainTextResponse(body)


ROUTES = [Route("/there/", echo, methods=["POST"])]


@contextlib.contextmanager
def served(routes: Any = ROUTES, **limits: Any) -> Iterator[WebServer]:
    with WebServer(routes, "toy", limits=Limits(**limits)) as server:
        yield server


@contextlib.contextmanager
def connected(server: WebServer, head: str, host: str = "localhost") -> Iterator[socket.socket]:
    """A connection on which the head of a request was sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(f"{head}\r\nHost: {host}\r\n".encode())
        yield client


def reply_of(client: socket.socket) -> tuple[int, dict[str, Any]]:
    reply = HTTPResponse(client)
    reply.begin()
    return reply.status, json.loads(reply.read())


def test_errors_are_json_in_the_words_of_the_program() -> None:
    reports: list[str] = []
    with (
        worded_by(lambda text: text.replace("`input`", "--input")),
        WebServer(ROUTES, "toy", report=reports.append) as server,
    ):
        there = f"{server.address}/there/"
        assert requests.post(there, "ä".encode(), timeout=9).text == "ä"
        empty = requests.post(f"{server.address}/there", timeout=9)
        assert (empty.status_code, empty.json()) == (400, {"error": "the --input is empty"})
        failed = requests.post(there, b"fail", timeout=9)
        assert (failed.status_code, "FloatingPointError" in failed.json()["error"]) == (500, True)
        assert "not a number" in reports[0]
        for unknown in (requests.get(there, timeout=9), requests.put(there, timeout=9)):
            assert list(unknown.json()) == ["error"] and unknown.status_code == 405


def test_a_body_that_is_too_large_or_does_not_arrive() -> None:
    post = "POST /there/ HTTP/1.1"
    with served(timeout=0.3, body_bytes=100) as server:
        with connected(server, f"{post}\r\nContent-Length: 101\r\nExpect: 100-continue") as client:
            client.sendall(b"\r\n")
            assert reply_of(client)[0] == 413
        with connected(server, f"{post}\r\nContent-Length: 9") as client:
            client.sendall(b"\r\n{")
            client.shutdown(socket.SHUT_WR)
            assert reply_of(client) == (400, {"error": "The body ends after 1 of 9 bytes"})
        with connected(server, "POST /nowhere HTTP/1.1") as client:
            client.sendall(b"\r\n")
            client.shutdown(socket.SHUT_WR)
            assert reply_of(client)[0] == 404
        with connected(server, f"{post}\r\nContent-Length: 9") as client:
            client.sendall(b"\r\n{")
            assert reply_of(client)[0] == 408


def test_connections_above_the_limit_are_refused_until_one_ends() -> None:
    with served(connections=1) as server:
        with connected(server, "POST /there/ HTTP/1.1"):
            refused = requests.post(f"{server.address}/there/", b"a", timeout=9)
            assert (refused.status_code, list(refused.json())) == (503, ["error"])
        deadline = time.monotonic() + 20
        while (reply := requests.post(f"{server.address}/there/", b"a", timeout=9)).text != "a":
            assert reply.status_code == 503 and time.monotonic() < deadline


def test_a_server_that_was_not_begun_gives_its_port_back() -> None:
    never = WebServer([], "toy")
    never.stop()
    with WebServer([], "toy", port=never.port) as again:
        assert again.port == never.port


@pytest.mark.parametrize(
    ("bound", "allowed", "host", "status"),
    [
        ("127.0.0.1", [], "localhost:8501", 200),
        ("127.0.0.1", [], "LOCALHOST.", 200),
        ("127.0.0.1", [], "[::1]:8501", 200),
        ("127.0.0.1", [], "evil.example:8501", 403),
        ("127.0.0.1", [], "localhost.evil.example", 403),
        ("127.0.0.1", [], "192.168.0.7", 403),
        ("127.0.0.1", [], "evil@localhost", 400),
        ("127.0.0.1", [], "localhost, evil.example", 400),
        ("127.0.0.1", [], "", 400),
        ("0.0.0.0", [], "192.168.0.7:8501", 200),
        ("0.0.0.0", [], "evil.example", 403),
        ("fd00::1", [], "[FD00::1]:8501", 200),
        ("models.example", [], "Models.Example", 200),
        ("127.0.0.1", ["models.example"], "models.example:80", 200),
        ("127.0.0.1", ["models.example"], "evil.models.example", 403),
        ("127.0.0.1", ["*"], "any.example", 200),
    ],
)
def test_names_of_the_server(bound: str, allowed: list[str], host: str, status: int) -> None:
    hosts, headers = Hosts(bound, allowed), Headers({"Host": host})
    if status == 200:
        hosts.check("GET", headers)
        return
    with pytest.raises(HTTPException) as raised:
        hosts.check("GET", headers)
    assert raised.value.status_code == status and "\n" not in str(raised.value)


def test_a_request_for_another_host_is_refused_before_its_body_is_read() -> None:
    with served(timeout=20) as server:
        head = "POST /there/ HTTP/1.1\r\nContent-Length: 9"
        with connected(server, head, "evil.example") as client:
            client.sendall(b"\r\n")
            status, body = reply_of(client)
            assert status == 403 and "evil.example is not a name of this server" in body["error"]
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert reply_of(client)[0] == 400
    with pytest.raises(UserError, match="`allowed_hosts`=a:80: expected names"):
        WebServer([], "toy", allowed_hosts=["a:80"])


def test_a_port_in_use() -> None:
    with served() as server:
        sentence = rf"`port`={server.port} of `host`=127.0.0.1 cannot be listened .*: name another"
        with pytest.raises(UserError, match=sentence):
            WebServer([], "toy", port=server.port)


def test_the_end_comes_after_the_answers_to_what_has_arrived() -> None:
    gate, called = threading.Event(), threading.Event()

    async def slow(request: Request) -> Response:
        called.set()
        assert await run_in_threadpool(gate.wait, 20)
        return await echo(request)

    with served([Route("/", slow, methods=["POST"])]) as server, ThreadPoolExecutor(2) as clients:
        answer = clients.submit(requests.post, server.address, b"a", timeout=20)
        assert called.wait(20)
        ending = clients.submit(server.stop)
        while not server.guard.ending:
            time.sleep(0.01)
        assert not ending.done()
        gate.set()
        assert (answer.result().text, answer.result().headers["Connection"]) == ("a", "close")
        ending.result()
        with pytest.raises(requests.ConnectionError):
            requests.get(server.address, timeout=5)
