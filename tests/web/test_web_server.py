"""The web server: its limits, the names it answers to, and its end."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
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

from tests.web.servers import SERVERS, Running, answer_of, connection, exchange, request, ut_serve
from ut_tf.bin.serving_flags import log_of
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


# UTF-8 of a message that is cut, and the words around it.
MOST_OF_AN_ERROR = 4_096


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    with SERVERS[request.param]() as running:
        yield running


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example", "Content_Type": "text/plain"},
        {"Origin": "https://localhost.evil.example"},
        {"Origin": "http://evil.example", "Sec_Fetch_Site": "same-origin"},
        {"Origin": "http://203.0.113.5:8501"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "file://"},
        {"Origin": "http://localhost@evil.example"},
        {"Origin": "http://localhost\r\nOrigin: http://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"},
    ],
    ids=str,
)
def test_the_page_of_another_host_cannot_make_a_server_work(
    server: Running, headers: dict[str, str]
) -> None:
    before = len(server.calls)
    answer = exchange(server.address, request("POST", server.path, server.body, **headers))
    assert answer.status == 403 and "may not ask this server" in answer.error
    assert len(server.calls) == before
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:8501", "Sec_Fetch_Site": "same-origin"},
        {"Origin": "http://127.0.0.1:9000", "Sec_Fetch_Site": "cross-site"},
        {"Origin": "https://[::1]"},
        {"Sec_Fetch_Site": "none"},
    ],
    ids=str,
)
def test_programs_and_pages_of_the_server_are_answered(
    server: Running, headers: dict[str, str]
) -> None:
    answer = exchange(server.address, request("POST", server.path, server.body, **headers))
    assert answer.status == 200 and b"AB" in answer.body


def test_images_and_frames_of_other_hosts_are_refused_and_links_are_not(server: Running) -> None:
    for kind, status in (("image", 403), ("iframe", 403), ("empty", 403), ("document", 200)):
        headers = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": kind}
        assert exchange(server.address, request("GET", "/", **headers)).status == status, kind


def test_hosts_that_are_allowed_have_pages_that_are_allowed() -> None:
    asked = {"Origin": "https://models.example", "Sec_Fetch_Site": "cross-site"}
    for allowed, host, status in (
        (["models.example"], "localhost", 200),
        (["models.example"], "models.example:8501", 200),
        (["other.example"], "other.example", 403),
        (["*"], "any.example", 200),
    ):
        with ut_serve(allowed_hosts=allowed) as server:
            sent = request("POST", server.path, server.body, Host=host, **asked)
            assert exchange(server.address, sent).status == status, (allowed, host)


LARGE = "x" * 60_000
HOSTILE = {
    "a path": request("POST", f"/{LARGE}", b"{}"),
    "a model": request("POST", f"/v1/models/{LARGE}:predict", b"{}"),
    "a method": request(LARGE, "/", b"{}"),
    "a version": request("GET", f"/ HTTP/{LARGE}"),
    "a host": request("GET", "/", Host=LARGE),
    "an origin": request("GET", "/", Origin=f"http://{LARGE}"),
    "a length": request("POST", "/", Content_Length="9" * 60_000),
    "a length that is no number": request("POST", "/", Content_Length=LARGE),
    "a transfer": request("POST", "/", Transfer_Encoding=LARGE),
    "an encoding": request("POST", "/", Content_Encoding=LARGE),
    "a header": request("GET", "/", **{LARGE: LARGE}),
    "many headers": request("GET", "/", **{f"X{number}": "" for number in range(200)}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_large_value_does_not_come_back_whole(server: Running, kind: str) -> None:
    answer = exchange(server.address, HOSTILE[kind])
    assert 400 <= answer.status < 600 and answer.error
    assert len(answer.body) < MOST_OF_AN_ERROR and server.log == []


def large_bodies() -> dict[str, object]:
    text = "é" * 1_000_000
    return {
        "a text": text,
        "a signature": {"signature_name": text, "instances": ["a"]},
        "a signature of another type": {"signature_name": [text], "instances": ["a"]},
        "rows": {"instances": text},
        "a row": {"instances": [{text: "a"}]},
        "a field": {"instances": [{"inputs": {text: text}}]},
        "a field in base 64": {"instances": [{"b64": text}]},
        "columns": {"inputs": {text: ["a"]}},
        "a column": {"inputs": {"inputs": text}},
        "numbers": {"instances": [{"inputs": list(range(100_000))}]},
    }


@pytest.fixture(scope="module")
def serving() -> Iterator[Running]:
    with ut_serve() as running:
        yield running


@pytest.mark.parametrize("kind", large_bodies())
def test_a_large_value_in_a_body_does_not_come_back_whole(serving: Running, kind: str) -> None:
    body = json.dumps(large_bodies()[kind], ensure_ascii=False).encode()
    answer = exchange(serving.address, request("POST", serving.path, body))
    assert answer.status == 400 and len(answer.body) < MOST_OF_AN_ERROR, answer.error
    assert serving.log == []


@pytest.mark.parametrize("around", ['{"instances":[%s]}', '{"inputs":%s}', '{"signature_name":%s}'])
@pytest.mark.parametrize(("opened", "closed"), [('{"a":', "}"), ("[", "]")])
def test_values_of_every_depth_are_refused_in_a_sentence(
    serving: Running, around: str, opened: str, closed: str
) -> None:
    for depth in (5, 200, *range(930, 1_010, 4), 5_000, 100_000):
        body = around % (opened * depth + "1" + closed * depth)
        reply = requests.post(serving.address + serving.path, body, timeout=60)
        assert (reply.status_code, len(reply.content) < 300) == (400, True), depth
    assert serving.log == []


def test_the_log_takes_no_orders_for_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    log_of("ut-serve")("a trace that\nquotes \x1b]0;title\x07")
    assert capfd.readouterr().err == "ut-serve: a trace that\nquotes \ufffd]0;title\ufffd\n"


def test_a_head_of_many_large_lines_is_refused(server: Running) -> None:
    headers = {f"X{number}": "x" * 10_000 for number in range(20)}
    answer = exchange(server.address, request("GET", "/", **headers))
    assert 400 <= answer.status < 500 and len(answer.body) < MOST_OF_AN_ERROR
    small = {f"X{number}": "x" * 1_000 for number in range(20)}
    assert exchange(server.address, request("GET", "/", **small)).status == 200


def test_a_text_above_64_kb_is_refused_as_text_and_in_base_64(serving: Running) -> None:
    for size, status in ((65_536, 200), (65_537, 413)):
        text = "é" * (size // 2) + "x" * (size % 2)
        encoded = base64.b64encode(text.encode()).decode()
        for body in (
            {"instances": ["a", text]},
            {"instances": [{"inputs": {"b64": encoded}}]},
            {"inputs": {"inputs": ["a", text]}},
        ):
            sent = request("POST", serving.path, json.dumps(body).encode())
            answer = exchange(serving.address, sent)
            assert answer.status == status
            assert status == 200 or f"{size} bytes: expected at most 65536" in answer.error


def test_large_bodies_share_a_room_and_small_ones_need_none() -> None:
    with ut_serve(body_bytes=100_000) as server, contextlib.ExitStack() as clients:
        large = request("POST", server.path, Content_Length="100000") + b" " * 99_999
        deadline = time.monotonic() + 20
        for _ in range(7):
            clients.enter_context(connection(server.address)).sendall(large)
        # One of these may come while the whole one beside it has the room.
        while (answer := exchange(server.address, large + b" ")).status == 400:
            clients.enter_context(connection(server.address)).sendall(large)
            assert time.monotonic() < deadline
        assert answer.status == 503 and "Too many large requests" in answer.error
        small = request("POST", server.path, server.body)
        assert exchange(server.address, small).status == 200
        clients.close()
        while exchange(server.address, large + b" ").status == 503:
            assert time.monotonic() < deadline
