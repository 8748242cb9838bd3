"""The client of TensorFlow Serving's REST protocol: what it sends, and its message for each way in
which an answer can fail.
"""

from __future__ import annotations

import socket
import threading

import pytest

from tests.serving.rest_server import RestServer
from ut_tf.errors import UserError
from ut_tf.serving.rest import RestClient


def upper(examples):
    return [{"outputs": example["inputs"].upper(), "scores": -1.5} for example in examples]


def lengths(examples):
    return [
        {"log_probabilities": -float(len(example["inputs"] + example["targets"]))}
        for example in examples
    ]


SIGNATURES = {"serving_default": (["inputs"], upper), "score": (["inputs", "targets"], lengths)}


def test_it_asks_by_the_protocol_and_returns_in_order():
    with RestServer(SIGNATURES) as server:
        client = RestClient(server.address.removeprefix("http://") + "/", "toy", version=3)
        assert client.inputs("score") == ("inputs", "targets")
        answers = client.predict([{"inputs": "ä"}, {"inputs": 'b"'}])
    assert answers == [{"outputs": "Ä", "scores": -1.5}, {"outputs": 'B"', "scores": -1.5}]
    asked = {
        "path": "/v1/models/toy/versions/3:predict",
        "signature_name": "serving_default",
        "instances": [{"inputs": "ä"}, {"inputs": 'b"'}],
    }
    assert server.requests == [asked]


def test_inputs_stand_in_the_order_in_which_people_give_them():
    signatures = {
        "classify": (["question", "story"], upper),
        "own": (["zeta", "targets", "alpha"], upper),
    }
    with RestServer(signatures) as server:
        client = RestClient(server.address, "toy")
        assert client.inputs("classify") == ("story", "question")
        assert client.inputs("own") == ("targets", "alpha", "zeta")
        with pytest.raises(
            UserError,
            match=r"has no signature 'clasify'; did you mean classify\? It has classify, own",
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
    with RestServer(SIGNATURES, reply) as server, pytest.raises(UserError) as caught:
        RestClient(server.address, "toy").predict([{"inputs": "a"}, {"inputs": "b"}])
    assert expected in str(caught.value)


def test_an_unknown_model():
    with (
        RestServer(SIGNATURES) as server,
        pytest.raises(UserError, match="status 404: Servable not found"),
    ):
        RestClient(server.address, "other").inputs("serving_default")


def test_a_server_that_takes_too_long():
    with (
        RestServer(SIGNATURES, delay=threading.Event()) as server,
        pytest.raises(UserError, match=r"no answer within 0\.2 seconds"),
    ):
        RestClient(server.address, "toy", timeout=0.2).predict([{"inputs": "a"}])


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
