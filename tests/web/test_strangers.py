"""What strangers send to the servers of ut-serve and ut-insights, over a socket: pages of other
hosts, and values that make a message fail or grow.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Iterator

import pytest
import requests

from tests.web.servers import SERVERS, Running, connection, exchange, request, ut_serve
from ut_tf.bin.serving_flags import log_of

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
    with requests.Session() as session:
        for depth in (5, 200, *range(930, 1_010), 5_000, 100_000):
            body = around % (opened * depth + "1" + closed * depth)
            reply = session.post(serving.address + serving.path, body, timeout=20)
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
