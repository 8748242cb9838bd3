"""The client of TensorFlow Serving's REST protocol, asked of the server here, and its message for
each way in which an answer can fail.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.serving.python_model import PythonModel, served
from ut_tf.errors import UserError
from ut_tf.serving import rest_client
from ut_tf.serving.rest_client import RestClient


def upper(examples):
    return [{"outputs": example["inputs"].upper(), "scores": -1.5} for example in examples]


def lengths(examples):
    return [
        {"log_probabilities": -float(len(example["inputs"] + example["targets"]))}
        for example in examples
    ]


@contextlib.contextmanager
def replying(status, text):
    """The address of a server that answers every POST alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments):
            del arguments

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


SIGNATURES = {"serving_default": (["inputs"], upper), "score": (["inputs", "targets"], lengths)}


def test_it_asks_by_the_protocol_and_returns_in_order():
    model = PythonModel(SIGNATURES)
    with served(model) as server:
        client = RestClient(server.address.removeprefix("http://") + "/", "toy", version=3)
        assert client.inputs("score") == ("inputs", "targets")
        answers = client.predict([{"inputs": "ä"}, {"inputs": 'b"'}])
    assert answers == [{"outputs": "Ä", "scores": -1.5}, {"outputs": 'B"', "scores": -1.5}]
    assert model.calls == [[{"inputs": "ä"}, {"inputs": 'b"'}]]


def test_inputs_stand_in_the_order_in_which_people_give_them():
    signatures = {
        "classify": (["question", "story"], upper),
        "context": (["question", "context"], upper),
        "own": (["zeta", "targets", "alpha"], upper),
    }
    with served(PythonModel(signatures)) as server:
        client = RestClient(server.address, "toy")
        assert client.inputs("classify") == ("story", "question")
        assert client.inputs("context") == ("context", "question")
        assert client.inputs("own") == ("zeta", "alpha", "targets")
        with pytest.raises(
            UserError,
            match=r"has no signature 'clasify'; did you mean classify\? It has classify, .*own",
        ):
            client.inputs("clasify")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ((500, '{"error": "out of\\nmemory"}'), "answered with status 500: out of memory"),
        ((502, "<html>Bad gateway</html>"), "answered with status 502: <html>Bad gateway</html>"),
        ((404, ""), "answered with status 404: Not Found"),
        ((200, "hello"), "expected JSON, got hello: is this TensorFlow Serving's REST port"),
        ((200, '{"outputs": []}'), "expected 2 predictions, got {'outputs': []}"),
        ((200, '{"predictions": ["only one"]}'), "expected 2 predictions"),
        ((200, "[1, 2]"), "expected 2 predictions"),
    ],
)
def test_wrong_replies(reply, expected):
    with replying(*reply) as address, pytest.raises(UserError) as caught:
        RestClient(address, "toy").predict([{"inputs": "a"}, {"inputs": "b"}])
    assert expected in str(caught.value)


def test_an_unknown_model():
    with (
        served(PythonModel(SIGNATURES)) as server,
        pytest.raises(UserError, match="status 404: Servable not found"),
    ):
        RestClient(server.address, "other").inputs("serving_default")


def test_a_server_that_takes_too_long():
    gate = threading.Event()
    with served(PythonModel(SIGNATURES, gate)) as server:
        with pytest.raises(UserError, match=r"no answer within 0\.2 seconds"):
            RestClient(server.address, "toy", timeout=0.2).predict([{"inputs": "a"}])
        gate.set()


@contextlib.contextmanager
def sending(parts):
    """The address of a server that sends these bytes, and more of them whenever it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    for part in parts:
                        connection.sendall(part)

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def slowly(whole, byte):
    yield whole
    while True:
        time.sleep(0.02)
        yield byte


@pytest.mark.parametrize("whole", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n["])
def test_a_server_that_sends_byte_by_byte(whole):
    with sending(slowly(whole, b" ")) as address:
        before = time.monotonic()
        with pytest.raises(UserError, match=r"no answer within 0\.3 seconds"):
            RestClient(address, "toy", timeout=0.3).predict([{"inputs": "a"}])
        assert time.monotonic() - before < 2.0


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", "the answer has more than 1,000,000 bytes"),
        (b"HTTP/1.1 302 Found\r\nLocation: /a\r\n\r\n", "more than 1,000,000 bytes"),
        (CHUNKED + b"7fffffff\r\n", "more than 1,000,000 bytes"),
        (CHUNKED, "cannot be asked"),
        (CHUNKED + b"1;", "cannot be asked"),
        (b"HTTP/1.1 200 OK\r\nX: ", "does not answer"),
        (b"", "does not answer"),
    ],
)
def test_a_server_that_sends_for_ever(monkeypatch, head, expected):
    monkeypatch.setattr(rest_client, "LARGEST_ANSWER", 1_000_000)
    sent = []

    def parts():
        yield head
        while True:
            sent.append(100_000)
            yield b"0" * 100_000

    with sending(parts()) as address, pytest.raises(UserError, match=expected):
        RestClient(address, "toy", timeout=20).predict([{"inputs": "a"}])
    # Beside what the sockets hold.
    assert sum(sent) < 20_000_000


def test_an_answer_that_unpacks_to_more_is_not_unpacked():
    bomb = gzip.compress(gzip.compress(b" " * 50_000_000, 9), 9)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n"
    with (
        sending([head % len(bomb), bomb]) as address,
        pytest.raises(UserError, match="expected JSON"),
    ):
        RestClient(address, "toy").predict([{"inputs": "a"}])


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (b"200 OK", b"[" * 100_000, "expected JSON"),
        (b"200 OK", b'{"metadata": {"signature_def": {"signature_def": [1]}}}', "a model's sig"),
        (b"200 OK", b'{"metadata": {"signature_def": {"signature_def": "a"}}}', "a model's sig"),
        (b"302 Found\r\nLocation: http://\xff\xfe/", b"", "a redirect to http://"),
        (b"302 Found\r\nLocation: http://my..host/", b"", "a redirect to http://my..host/: give"),
        (b"302 Found", b"", "expected JSON"),
        (b"200 OK\r\nContent-Encoding: gzip", gzip.compress(b"{}", mtime=0), "expected JSON"),
        (b"500 Oh", b'{"error": [[1]]}', "status 500: [[1]]"),
        (b"500 Oh", b"\xff\x1b[2J", "status 500"),
    ],
)
def test_strange_answers_are_one_sentence(head, body, expected):
    answer = b"HTTP/1.1 " + head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with sending([answer]) as address, pytest.raises(UserError) as caught:
        RestClient(address, "toy", timeout=5).inputs("serving_default")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("of", "names"),
    [("signatures", ["x" * 5_000_000]), ("inputs", [f"name {n}" for n in range(200_000)])],
    ids=["signatures", "inputs"],
)
def test_names_without_end_are_one_short_sentence_at_once(names, of):
    inner = {name: {} for name in names}
    signatures = inner if of == "signatures" else {"serving_default": {"inputs": inner}}
    body = json.dumps({"metadata": {"signature_def": {"signature_def": signatures}}}).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    before = time.monotonic()
    with sending([answer]) as address, pytest.raises(UserError) as caught:
        RestClient(address, "toy").inputs("serving_default")
    assert "expected a model's signatures" in str(caught.value) and len(str(caught.value)) < 500
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("host", ["my..host", "a" * 70, "[::1", "ä" * 70, "h:99999", "h:x", ""])
def test_strange_names_of_servers(host):
    with pytest.raises(UserError):
        RestClient(f"http://{host}", timeout=2).predict([])


def test_no_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        UserError, match=rf"http://127\.0\.0\.1:{port} does not answer \(connection refused\)"
    ):
        RestClient(f"127.0.0.1:{port}").predict([])
    with pytest.raises(UserError, match="cannot be asked"):
        RestClient("ftp://127.0.0.1").predict([])


@pytest.mark.parametrize("timeout", [0.0, 1e9, float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    with pytest.raises(UserError, match=f"^`timeout`={re.escape(str(timeout))}: expected a number"):
        RestClient("localhost:8501", timeout=timeout)
