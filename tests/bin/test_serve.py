"""ut-serve: a process that answers from an export until it is told to end."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bin.quick_commands import call_commands
from tests.serving.process import Process
from tests.web.servers import connection, exchange, request
from ut_tf.serving.rest_client import RestClient

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
