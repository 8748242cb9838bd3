"""ut-query: lines in, answers out in order, from a server of Python functions and from one of an
exported model.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bin.quick_commands import call_commands
from tests.serving.process import Process
from tests.serving.python_model import PythonModel, served
from tests.web.servers import connection, exchange, request
from ut_tf.bin import query
from ut_tf.serving.rest_client import RestClient


def upper(examples):
    return [{"outputs": example["inputs"].upper(), "scores": -1.5} for example in examples]


def best_two(examples):
    return [
        {"outputs": [example["inputs"], "a\tb\nc"], "scores": [-1.0, -2.0]} for example in examples
    ]


def score(examples):
    return [{"log_probabilities": -float(len(example["targets"]))} for example in examples]


def answers(examples):
    return [
        {"outputs": example["question"].split()[-1], "story": example["story"]}
        for example in examples
    ]


def ponder(examples):
    return [
        {"tokens": list(example["inputs"]), "ponder_times": [2.0] * len(example["inputs"])}
        for example in examples
    ]


SIGNATURES = {
    "serving_default": (["inputs"], upper),
    "best": (["inputs"], best_two),
    "score": (["inputs", "targets"], score),
    "classify": (["story", "question"], answers),
    "ponder": (["inputs"], ponder),
}


@pytest.fixture
def ask(monkeypatch, capsys):
    def call(server, lines, *argv, typed=False):
        stdin = types.SimpleNamespace(buffer=io.BytesIO(lines.encode()), isatty=lambda: typed)
        monkeypatch.setattr(sys, "stdin", stdin)
        status = query.main([f"--server={server.address}", "--model_name=toy", *argv])
        return status, *capsys.readouterr()

    return call


def test_lines_are_answered_in_order_and_in_batches(ask):
    model = PythonModel(SIGNATURES)
    with served(model) as server:
        status, out, err = ask(server, "\n".join("abcdefg") + "\n", "--batch_size=3")
    assert (status, out, err) == (0, "\n".join("ABCDEFG") + "\n", "")
    assert [len(call) for call in model.calls] == [3, 3, 1]
    with served(PythonModel(SIGNATURES)) as server:
        assert ask(server, "z\n", "--input=a\nb", typed=True) == (0, "A\nB\n", "")
        assert ask(server, "z\n", "--input=", typed=True) == (0, "\n", "")


def test_an_empty_line_has_an_answer_of_its_own(ask):
    with served(PythonModel(SIGNATURES)) as server:
        assert ask(server, "a\n\nb\n")[1] == "A\n\nB\n"
        assert ask(server, "")[1] == ""


@pytest.mark.parametrize(
    ("signature", "line", "printed"),
    [
        ("best", "x", "x\ta b c"),
        ("score", "x\tabcd", "-4.000000"),
        ("ponder", "ab", '{"tokens": ["a", "b"], "ponder_times": [2.0, 2.0]}'),
    ],
)
def test_what_is_printed(ask, signature, line, printed):
    with served(PythonModel(SIGNATURES)) as server:
        assert ask(server, f"{line}\n", f"--signature={signature}") == (0, f"{printed}\n", "")


def test_orders_to_the_terminal_are_left_out(ask):
    def orders(examples):
        return [{"outputs": "a\x1b]0;title\x07\x9b2J\x7fb"} for _ in examples]

    with served(PythonModel({"serving_default": (["inputs"], orders)})) as server:
        for flags in ([], ["--json"]):
            status, out, _ = ask(server, "x\n", *flags)
            assert status == 0
            assert not {*"\x1b\x07\x9b\x7f"} & {*out}
        printed = ask(server, "x\n", "--signature=\x1b[31mred")[2]
    assert "red" in printed
    assert "\x1b" not in printed


def test_json_holds_all_that_the_model_returns(ask, tmp_path):
    (tmp_path / "lines.txt").write_text("ä\n")
    with served(PythonModel(SIGNATURES)) as server:
        _, out, _ = ask(server, "", "--json", f"--decode_from_file={tmp_path}/lines.txt")
    assert json.loads(out) == {"outputs": "Ä", "scores": -1.5}


def test_stories_are_read_in_babi_s_format(ask):
    lines = (
        "1 Mary left.\n2 Where is Mary?\thall\t1\n3 John came.\n4 Who is John?\n1 Bill slept.\n2"
        " Where is Bill?\n"
    )
    model = PythonModel(SIGNATURES)
    with served(model) as server:
        _, out, _ = ask(server, lines, "--signature=classify")
    assert out.splitlines() == ["Mary?", "John?", "Bill?"]
    assert [example["story"] for example in model.calls[0]] == [
        "Mary left.",
        "Mary left.\nJohn came.",
        "Bill slept.",
    ]


def test_typed_lines_are_answered_one_by_one(ask):
    model = PythonModel(SIGNATURES)
    with served(model) as server:
        status, out, err = ask(server, "a\nb\n", typed=True)
    assert (status, out, err) == (0, "A\nB\n", "> > > \n")
    assert [len(call) for call in model.calls] == [1, 1]


@pytest.mark.parametrize(
    ("argv", "lines", "status", "expected"),
    [
        (["--signature=scor"], "a\n", 1, "did you mean score"),
        (["--signature=score"], "a\tb\nc\n", 1, "standard input, line 2"),
        (["--signature=classify"], "Mary left.\n", 1, "standard input has no question: end one"),
        (["--model_name=other"], "a\n", 1, "Servable not found"),
        (["--server=http://127.0.0.1:1"], "a\n", 1, "does not answer"),
        (["--batch_size=0"], "a\n", 2, "--batch_size=0: expected a number above 0"),
        (["--timeout=inf"], "a\n", 2, "--timeout=inf: expected"),
        (["--input=a", "--decode_from_file=b"], "", 2, "each say what to send: give one of them"),
    ],
)
def test_mistakes_are_answered_in_one_line(ask, argv, lines, status, expected):
    with served(PythonModel(SIGNATURES)) as server:
        found, out, err = ask(server, lines, *argv)
    assert (found, out) == (status, "")
    assert err.startswith("ut-query: error: ")
    assert expected in err
    assert err.count("\n") == 1


# It was exported once: a search takes seconds to trace.
EXPORT = Path(__file__).parents[1] / "stored_runs" / "ut_halting_reverse" / "export"
WRITTEN = json.loads((EXPORT.parent / "expected.json").read_text(encoding="utf-8"))["export"]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """ut-serve, of which the last test sees the end."""
    process = Process(shutil.copytree(EXPORT, tmp_path_factory.mktemp("serve") / "export"))
    yield process
    process.kill()


def test_it_answers_from_the_export(serving: Process) -> None:
    client = RestClient(serving.address, "digits")
    answers = client.predict([{"inputs": text} for text in WRITTEN["inputs"]])
    assert [answer["outputs"] for answer in answers] == WRITTEN["outputs"]


def test_above_512_connections_it_answers_503(serving: Process) -> None:
    with contextlib.ExitStack() as clients:
        for _ in range(512):
            clients.enter_context(connection(serving.address))
        assert exchange(serving.address, request("GET", "/")).status == 503
    deadline = time.monotonic() + 20
    while exchange(serving.address, request("GET", "/")).status == 503:
        assert time.monotonic() < deadline


def test_its_health_can_be_asked(serving: Process) -> None:
    assert exchange(serving.address, request("GET", "/healthz")).status == 200


def test_its_metrics_are_those_that_prometheus_reads(serving: Process) -> None:
    def counters() -> list[str]:
        reply = exchange(serving.address, request("GET", "/metrics"))
        assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain")
        text = reply.body.decode()
        assert re.search(r"^# TYPE \w+ counter$", text, re.MULTILINE)
        return re.findall(r"^\w+_total(?:\{.*\})? \S+$", text, re.MULTILINE)

    before = counters()
    RestClient(serving.address, "digits").predict([{"inputs": "1 2"}])
    assert before and counters() != before


def test_its_log_has_a_line_of_every_request(serving: Process) -> None:
    # A head with this byte itself is not HTTP.
    assert exchange(serving.address, request("GET", "/\x1b[2J")).status == 400
    exchange(serving.address, request("GET", "/v1/models/other%1b[2J"))
    deadline = time.monotonic() + 0.5
    while not (found := [line for line in serving.lines if "/v1/models/other" in line]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (line,) = found
    assert "GET" in line and "404" in line and "\x1b" not in "".join(serving.lines)


def test_it_ends_at_sigterm_when_what_has_arrived_is_answered(serving: Process) -> None:
    client = RestClient(serving.address, "digits")
    # Longer than the signal takes to arrive.
    many = [{"inputs": "1234567890"}] * 600
    late: list[object] = []
    asking = threading.Thread(target=lambda: late.extend(client.predict(many)))
    with connection(serving.address) as unfinished:
        unfinished.sendall(request("POST", "/v1/models/digits:predict", Content_Length="9"))
        asking.start()
        asking.join(0.3)
        began = time.monotonic()
        serving.process.send_signal(signal.SIGTERM)
        assert serving.end() == 0
    assert time.monotonic() - began < 20
    asking.join()
    assert len(late) == 600
    notice = "answering the requests that have arrived; a second signal stops at once\n"
    assert [line for line in serving.lines if " HTTP/1.1" not in line][-2:] == ["\n", notice]


def test_mistakes_are_answered_without_tensorflow(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    cases = (
        ([], 2, "--export_dir is missing"),
        (["--export_dir=/nonexistent"], 1, "--export_dir=/nonexistent holds no exported model"),
        ([f"--export_dir={tmp_path}", "--port=65536"], 2, "--port=65536: expected a number from 0"),
        ([f"--export_dir={tmp_path}", "--max_batch_size=0"], 2, "--max_batch_size=0: expected"),
        ([f"--export_dir={tmp_path}", "--timeout=nan"], 2, "--timeout=nan: expected"),
        ([f"--export_dir={tmp_path}", "--model_name=a/b"], 2, "--model_name=a/b: expected"),
    )
    answers = call_commands([("serve", argv) for argv, *_ in cases])
    for (argv, status, expected), answer in zip(cases, answers, strict=True):
        assert (answer.status, answer.imported) == (status, []), argv
        assert expected in answer.errors
        assert answer.errors.count("\n") == 1
