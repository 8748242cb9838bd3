"""The server: TensorFlow Serving's protocol, its limits, batches, and its end."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import requests
from starlette.responses import HTMLResponse
from starlette.routing import Route

from tests.insights.page.tab import Tab
from tests.serving.python_model import PythonModel, served
from ut_tf.errors import UserError
from ut_tf.serving.batching import Batcher
from ut_tf.serving.newest import NewestVersion


def upper(examples):
    if any(example["inputs"] == "fail" for example in examples):
        raise FloatingPointError("not a number")
    return [{"outputs": example["inputs"].upper(), "scores": 0.1} for example in examples]


def lengths(examples):
    return [{"log_probabilities": float(len("".join(row.values())))} for row in examples]


def ponder(examples):
    return [
        {"tokens": list(row["inputs"]), "ponder_times": [2.0] * len(row["inputs"])}
        for row in examples
    ]


SIGNATURES = {
    "serving_default": (["inputs"], upper),
    "score": (["inputs", "targets"], lengths),
    "ponder": (["inputs"], ponder),
}


def post(server, body, path="/v1/models/toy:predict"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = requests.post(server.address + path, data=data, timeout=30)
    return reply.status_code, reply.json()


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def server():
    with served(PythonModel(SIGNATURES), body_bytes=100_000) as running:
        yield running


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (
            {"instances": [{"inputs": "ä"}, {"inputs": {"b64": "Yg=="}}]},
            {"predictions": [{"outputs": "Ä", "scores": 0.1}, {"outputs": "B", "scores": 0.1}]},
        ),
        ({"instances": ["a"]}, {"predictions": [{"outputs": "A", "scores": 0.1}]}),
        ({"inputs": ["a", "b"]}, {"outputs": {"outputs": ["A", "B"], "scores": [0.1, 0.1]}}),
        (
            {"signature_name": "score", "instances": [{"inputs": "ab", "targets": "c"}]},
            {"predictions": [3.0]},
        ),
        (
            {"signature_name": "score", "inputs": {"inputs": ["ab", ""], "targets": ["c", ""]}},
            {"outputs": [3.0, 0.0]},
        ),
    ],
)
def test_rows_and_columns(server, body, answer):
    assert post(server, body) == (200, answer)


def test_the_state_and_the_signatures_of_a_model(server):
    model = f"{server.address}/v1/models/toy"
    (state,) = requests.get(model, timeout=9).json()["model_version_status"]
    assert (state["version"], state["state"]) == ("3", "AVAILABLE")
    metadata = requests.get(f"{model}/versions/3/metadata", timeout=9).json()
    assert metadata["model_spec"] == {"name": "toy", "signature_name": "", "version": "3"}
    score = metadata["metadata"]["signature_def"]["signature_def"]["score"]
    assert score["inputs"]["targets"]["dtype"] == "DT_STRING"
    assert score["inputs"]["targets"]["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]
    page = requests.get(server.address, timeout=9)
    assert 'data-model="toy"' in page.text and "<title>toy</title>" in page.text
    assert "insights" not in page.text
    assert "'none'" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b"", 400, "JSON Parse error"),
        (b"{", 400, "JSON Parse error"),
        (b"[" * 50_000, 400, "JSON Parse error"),
        (b"\xff", 400, "JSON Parse error"),
        (b'{"instances": ["a"], "instances": ["b"]}', 400, 'the key "instances" stands twice'),
        ([1], 400, "Is not object"),
        ({}, 400, "Missing 'inputs' or 'instances' key"),
        ({"inputs": ["a"], "instances": ["a"]}, 400, "only one of 'inputs' or 'instances'"),
        ({"instances": []}, 400, "Expecting 'instances' to be a list/array with one value"),
        ({"instances": "a"}, 400, "Expecting 'instances'"),
        (
            {"instances": [1]},
            400,
            "element: 0 of 'instances' list. JSON Value: 1 is not of expected",
        ),
        ({"instances": ["a", {"input": "b"}]}, 400, "element: 1 of 'instances' list."),
        ({"instances": [{"b64": "?"}]}, 400, "Unable to base64 decode"),
        ({"inputs": "a"}, 400, 'JSON Value: "a" is not a list'),
        ({"signature_name": "score", "inputs": {"inputs": ["a"]}}, 400, "keys: inputs,targets"),
        (
            {"signature_name": "score", "inputs": {"inputs": ["a"], "targets": []}},
            400,
            "lists of one size in 'inputs' object but got: {'inputs': 1, 'targets': 0}",
        ),
        ({"signature_name": "scores", "instances": ["a"]}, 400, 'name: "scores" not found'),
        ({"signature_name": 7, "instances": ["a"]}, 400, "'signature_name' key must be a string"),
        ({"instances": ["fail"]}, 500, "FloatingPointError"),
        ({"instances": ["a"] * 2000}, 413, "2000 examples in one request: expected at most 1024"),
        (b"x" * 5_000_000, 413, "The body has 5000000 bytes: expected at most 100000"),
    ],
)
def test_wrong_requests(server, body, status, expected):
    answered, reply = post(server, body)
    assert (answered, list(reply)) == (status, ["error"])
    assert expected in reply["error"]


@pytest.mark.parametrize(
    ("path", "status", "expected"),
    [
        ("/v1/models/other:predict", 404, "Servable not found for request: Latest(other)"),
        ("/v1/models/toy/versions/2:predict", 404, "Specific(toy, 2)"),
        ("/v1/models/toy:classify", 400, "Malformed request: POST /v1/models/toy:classify"),
        ("/v1/models/toy/metadata", 400, "Malformed request"),
    ],
)
def test_wrong_paths(server, path, status, expected):
    answered, reply = post(server, {"instances": ["a"]}, path)
    assert answered == status
    assert expected in reply["error"]


def test_twenty_clients_get_their_own_answers_from_shared_batches():
    gate = threading.Event()
    model = PythonModel(SIGNATURES, gate)
    batcher = Batcher(max_batch_size=8)
    with served(model, batcher=batcher) as server, ThreadPoolExecutor(20) as clients:
        texts = [f"text {number}" for number in range(20)]
        bodies = [{"instances": [text, f"{text} again"]} for text in texts]
        answers = [clients.submit(post, server, bodies[0])]
        wait_for(lambda: model.calls)
        answers += [clients.submit(post, server, body) for body in bodies[1:]]
        wait_for(lambda: len(batcher._waiting) == 19)
        gate.set()
        for text, answer in zip(texts, answers, strict=True):
            status, reply = answer.result()
            outputs = [prediction["outputs"] for prediction in reply["predictions"]]
            assert (status, outputs) == (200, [text.upper(), f"{text} again".upper()])
    assert sorted(map(len, model.calls)) == [2, 6, 8, 8, 8, 8]


def test_a_request_is_neither_padded_nor_spoilt_by_its_neighbours():
    gate = threading.Event()
    model = PythonModel(SIGNATURES, gate)
    batcher = Batcher(max_batch_size=4)
    with served(model, batcher=batcher) as server, ThreadPoolExecutor(4) as clients:
        first = clients.submit(post, server, {"instances": ["first"]})
        wait_for(lambda: model.calls)
        bodies = [
            {"signature_name": "ponder", "instances": ["a"]},
            {"signature_name": "ponder", "instances": ["abcd", "ab", "c", "d", "efg"]},
            {"instances": ["fine"]},
        ]
        answers = [clients.submit(post, server, body) for body in bodies]
        failing = threading.Thread(target=post, args=(server, {"instances": ["fail"]}))
        failing.start()
        wait_for(lambda: len(batcher._waiting) == 5)
        gate.set()
        short, long, fine = (answer.result() for answer in answers)
        failing.join()
        assert first.result()[0] == 200
    assert short[1]["predictions"] == [{"tokens": ["a"], "ponder_times": [2.0]}]
    assert long[1]["predictions"][4]["tokens"] == ["e", "f", "g", ""]
    assert fine == (200, {"predictions": [{"outputs": "FINE", "scores": 0.1}]})


def test_a_full_queue_and_a_slow_model():
    gate = threading.Event()
    model = PythonModel(SIGNATURES, gate)
    batcher = Batcher(max_batch_size=1, max_waiting=1, timeout=1.0)
    with served(model, batcher=batcher) as server, ThreadPoolExecutor(2) as clients:
        running = clients.submit(post, server, {"instances": ["a"]})
        wait_for(lambda: model.calls)
        waiting = clients.submit(post, server, {"instances": ["b"]})
        wait_for(lambda: batcher._waiting)
        status, reply = post(server, {"instances": ["c"]})
        assert (status, "1 examples wait already" in reply["error"]) == (503, True)
        for late in (running, waiting):
            status, reply = late.result()
            assert (status, "no answer within 1 seconds" in reply["error"]) == (504, True)
        gate.set()
    # Nobody waits for "b" any more.
    assert model.calls == [[{"inputs": "a"}]]


def test_the_page_of_a_model_without_a_name_is_titled_by_what_it_was_trained_on():
    model = PythonModel(SIGNATURES)
    with served(model, "model") as server:
        page = requests.get(server.address, timeout=9).text
    assert "<h1>reversing &lt;letters&gt;</h1>" in page and 'data-model="model"' in page


def test_the_page_of_insights_is_beside_the_protocol():
    async def steps(_):
        return HTMLResponse("steps")

    routes = [Route("/insights/", steps)]
    model = PythonModel(SIGNATURES)
    with served(model, insights=routes) as server:
        assert 'href="insights/"' in requests.get(server.address, timeout=9).text
        page = requests.get(f"{server.address}/insights/", timeout=9)
        assert (page.text, "Content-Security-Policy" in page.headers) == ("steps", False)
        assert post(server, {"instances": ["a"]})[0] == 200


def test_a_new_version_takes_the_place_of_the_old_one(tmp_path):
    broken = {3}

    def load(folder, version):
        if version in broken:
            raise UserError(f"{folder} is broken.")
        return PythonModel(SIGNATURES, version=version)

    def add(version):
        (tmp_path / str(version)).mkdir()
        (tmp_path / str(version) / "saved_model.pb").touch()

    with pytest.raises(UserError, match="holds no exported model"):
        NewestVersion(tmp_path, load, print)
    add(1)
    (tmp_path / "7").mkdir()  # not written yet
    reports = []
    newest = NewestVersion(tmp_path, load, reports.append)
    assert newest.model.version == 1
    add(2)
    newest.refresh()
    assert newest.model.version == 2
    add(3)
    newest.refresh()
    newest.refresh()
    assert newest.model.version == 2
    assert reports == ["version 2 is served now", f"version 2 stays: {tmp_path}/3 is broken."]
    # Its copy was not complete.
    broken.clear()
    (tmp_path / "3" / "variables").touch()
    newest.refresh()
    assert newest.model.version == 3


def page_upper(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"outputs": example["inputs"].upper()} for example in examples]


def page_lengths(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"log_probabilities": -float(len(example["targets"]))} for example in examples]


def last_words(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {"outputs": f"{example['question']}: {len(example['story'].splitlines())} lines"}
        for example in examples
    ]


def page_ponder(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {"tokens": list(row["inputs"]), "ponder_times": [*range(1, len(row["inputs"]) + 1)]}
        for row in examples
    ]


def impossible(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"outputs": "a: NaN", "scores": -np.inf} for _ in examples]


PAGE_SIGNATURES = {
    "impossible": (["inputs"], impossible),
    "serving_default": (["inputs"], page_upper),
    "ponder": (["inputs"], page_ponder),
    "score": (["inputs", "targets"], page_lengths),
    "classify": (["story", "question"], last_words),
}


@pytest.fixture
def model() -> PythonModel:
    return PythonModel(PAGE_SIGNATURES)


@pytest.fixture
def page(tab: Tab, model: PythonModel) -> Iterator[Tab]:
    with served(model) as server:
        tab.visit(server.address, drawn=False)
        tab.wait(lambda: tab.count("textarea"), "the fields")
        yield tab


def ask(page: Tab, signature: str, **texts: str) -> list[str]:
    """What stands under the form after an answer, a text for each part."""
    page.run(
        "const choice = document.getElementById('signature'); choice.value = arguments[0];"
        "choice.dispatchEvent(new Event('change'));"
        "document.getElementById('result').replaceChildren();",
        signature,
    )
    for name, text in texts.items():
        page.run("document.getElementsByName(arguments[0])[0].value = arguments[1]", name, text)
    page.click("form button")
    page.wait(lambda: page.count("#result .answer"), "the answer")
    return page.texts("#result h2, #result .answer")


def test_a_line_is_an_example(page: Tab, model: PythonModel) -> None:
    answers = ask(page, "serving_default", inputs="ab\n\n<b>c</b>\n")
    assert answers == ["ab", "AB", "(empty)", "", "<b>c</b>", "<B>C</B>"]
    assert model.calls[0] == [{"inputs": text} for text in ("ab", "", "<b>c</b>")]
    page.wait(lambda: page.count("#result table") == 2, "the recurrent steps")
    assert page.texts("#result td:first-child") == [*"ab", *"<b>c</b>"]
    assert ask(page, "serving_default", inputs="one") == ["ONE"]


def test_the_fields_of_an_example_stand_in_the_same_line(page: Tab, model: PythonModel) -> None:
    scores = ask(page, "score", inputs="a\nb", targets="x\nyz")
    assert scores == ["a | x", "log probabilities: -1", "b | yz", "log probabilities: -2"]
    refused = ask(page, "score", inputs="a\nb", targets="x")
    assert refused == ["The fields have 2 and 1 lines: each example has one in each."]
    assert len([call for call in model.calls if "targets" in call[0]]) == 1


def test_a_score_of_minus_infinity_is_shown(page: Tab) -> None:
    assert ask(page, "impossible", inputs="x") == ["a: NaNscore -Infinity"]


def test_every_question_is_one_about_the_whole_story(page: Tab) -> None:
    answers = ask(page, "classify", story="Mary left.\nJohn came.", question="Who?\nWhere?")
    assert answers == ["Who?", "Who?: 2 lines", "Where?", "Where?: 2 lines"]


@pytest.fixture
def opened(tab: Tab) -> Iterator[Callable[[dict[str, Any], dict[str, Any]], Tab]]:
    """Opens the page of a model with these signatures, of which it knows this."""
    with contextlib.ExitStack() as servers:

        def open_page(signatures: dict[str, Any], about: dict[str, Any]) -> Tab:
            model = PythonModel(signatures)
            model.about.update(about)
            server = servers.enter_context(served(model))
            tab.visit(server.address, drawn=False)
            tab.wait(lambda: tab.count("textarea"), "the fields")
            return tab

        yield open_page


def test_classes_have_names(opened: Callable[..., Tab]) -> None:
    answer = {"outputs": "<b>", "probability": 0.999, "probabilities": [0.001, 0.999]}
    signatures = {"weigh": (["inputs"], lambda examples: [answer] * len(examples))}
    page = opened(signatures, {"classes": ["kitchen", "<b>"]})
    assert ask(page, "weigh", inputs="x") == ["<b>>99%"]
    cells = [text for text in page.texts("#result td") if text]
    assert cells == ["<b>", ">99%", "kitchen", "<1%"]


def test_boards_are_drawn_and_their_steps(opened: Callable[..., Tab]) -> None:
    steps = {"tokens": list("1..4"), "ponder_times": [1.0, 3.0, 2.0, 1.0]}
    signatures = {
        "serving_default": (["inputs"], lambda examples: [{"outputs": "13 24"}] * len(examples)),
        "ponder": (["inputs"], lambda examples: [steps] * len(examples)),
    }
    board = {"rows": 2, "columns": 2, "box_rows": None, "box_columns": 1}
    page = opened(signatures, {"board": board})
    deeds = ["count the recurrent steps (ponder)", "answer (serving_default)"]
    assert page.texts("#signature option") == deeds
    assert ask(page, "serving_default", inputs="1. .4") == ["1324"]
    page.wait(lambda: page.count("#result .board") == 2, "the recurrent steps")
    assert page.texts("#result .answer .board .given") == ["1", "4"]
    assert page.texts("#result .answer .board .before") == ["3", "4"]
    assert page.texts("#result section > .board span") == ["1", "3", "2", "1"]


def test_a_fixed_depth_is_a_sentence(opened: Callable[..., Tab]) -> None:
    signatures = {"ponder": (["inputs"], ponder), "generate": (["inputs"], page_upper)}
    page = opened(signatures, {})
    assert page.run("return document.getElementById('signature').value") == "generate"
    assert ask(page, "generate", inputs="abc") == ["ABC"]
    page.wait(lambda: page.count("#result p"), "the recurrent steps")
    assert page.texts("#result p") == ["Each of the 3 positions takes 2 recurrent steps."]
