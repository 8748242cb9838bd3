"""Memory of a process of ut-serve: the largest requests that are permitted take a bounded part of
it, and afterwards it is what it was.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.serving import toy
from tests.serving.process import Process
from ut_tf.search.config import DecodeConfig
from ut_tf.serving.export import export_run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

# Megabytes above those before. A server that takes more is killed, to spare the machine.
MOST, LEFT = 1_500, 200
TEXT = "abcdefghij" * 6_500
FIELDS = [
    ("letters", "serving_default", "inputs"),
    ("letters", "score", "inputs"),
    ("letters", "score", "targets"),
    ("letters", "ponder", "inputs"),
    ("letter_language", "serving_default", "targets"),
    ("letter_language", "generate", "inputs"),
    ("letter_questions", "serving_default", "story"),
    ("letter_questions", "classify", "question"),
    ("letter_questions", "ponder", "story"),
]
PARSED = {
    "deep lists": '{"instances": [%s1]}' % (("[" * 900 + "]" * 900 + ",") * 4_000),
    "many lists": '{"instances": [%s1]}' % ("[]," * 2_500_000),
    "many objects": '{"instances": [%s1]}' % ('{"a":1},' * 900_000),
    "many texts": '{"instances": [%s1]}' % ('"é",' * 1_500_000),
    "base 64": json.dumps({"instances": [{"b64": "YWJj" * 1_900_000}]}),
}


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of exports by problem."""
    folders = {}
    for problem in ("letters", "letter_language", "letter_questions"):
        folder = tmp_path_factory.mktemp(problem)
        run = toy.untrained_run(folder, problem, "halting=none")
        decode = DecodeConfig(beam_size=1, max_input_length=1_000)
        export_run(run, folder / "export", decode=decode)
        folders[problem] = folder / "export"
    return folders


@contextlib.contextmanager
def serving(export_dir: Path) -> Iterator[Process]:
    process = Process(export_dir)
    try:
        yield process
    finally:
        process.kill()


def status_of(process: Process, body: str | dict[str, Any]) -> int:
    """The status of the answer to a request, in which the process may take ``MOST`` more."""
    sent = body if isinstance(body, str) else json.dumps(body)
    before = process.memory()
    statuses: list[int] = []

    def ask() -> None:
        with contextlib.suppress(requests.ConnectionError):
            address = f"{process.address}/v1/models/digits:predict"
            statuses.append(requests.post(address, sent.encode(), timeout=100).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        asking.join(0.02)
        if process.memory() > before + MOST:
            process.kill()
            asking.join()
            pytest.fail(f"takes more than {MOST} MB")
    return statuses[0]


def check_returned(process: Process, before: float) -> None:
    """Waits until the memory is again what it was."""
    deadline = time.monotonic() + 5
    while (now := process.memory()) > before + LEFT:
        assert time.monotonic() < deadline, f"keeps {now - before:.0f} MB"
        time.sleep(0.1)


@pytest.mark.parametrize(("problem", "signature", "field"), FIELDS)
def test_the_largest_texts_of_a_field(
    exports: dict[str, Path], problem: str, signature: str, field: str
) -> None:
    fields = {
        "letters": ("inputs", "targets") if signature == "score" else ("inputs",),
        "letter_language": (field,),
        "letter_questions": ("story", "question"),
    }[problem]
    row = dict.fromkeys(fields, "abc")
    with serving(exports[problem]) as process:
        assert status_of(process, {"signature_name": signature, "instances": [row] * 32}) == 200
        before = process.memory()
        for count in (1, 64):
            rows = [{**row, field: TEXT}] * count
            # What begins with a target that is too long has another score.
            refused = field == "targets" and count == 1
            status = status_of(process, {"signature_name": signature, "instances": rows})
            assert status == (400 if refused else 200)
            check_returned(process, before)


def test_the_largest_bodies_of_every_shape(exports: dict[str, Path]) -> None:
    with serving(exports["letters"]) as process:
        before = process.memory()
        for kind, body in PARSED.items():
            assert 5_000_000 < len(body.encode()) < 8_000_000, kind
            assert status_of(process, body) in (400, 413), kind
            check_returned(process, before)


def test_the_largest_bodies_at_once(exports: dict[str, Path]) -> None:
    with serving(exports["letters"]) as process:
        for _ in range(2):
            # The first time, the C library makes an arena for each of some threads, and keeps it.
            before = process.memory()
            asking = [
                threading.Thread(target=status_of, args=(process, PARSED["many lists"]))
                for _ in range(16)
            ]
            for thread in asking:
                thread.start()
            for thread in asking:
                thread.join()
            assert process.process.poll() is None
        check_returned(process, before)
