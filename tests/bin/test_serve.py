"""ut-serve: a process that answers from an export until it is told to end."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.bin.quick_commands import call_commands
from ut_tf.serving.rest import RestClient

# It was exported once: a search takes seconds to trace.
EXPORT = Path(__file__).parents[1] / "stored_runs" / "ut_halting_reverse" / "export"
WRITTEN = json.loads((EXPORT.parent / "expected.json").read_text(encoding="utf-8"))["export"]


def test_it_answers_until_sigterm(tmp_path):
    folder = Path(shutil.copytree(EXPORT, tmp_path / "export"))
    command = [sys.executable, "-m", "ut_tf.bin.serve", f"--export_dir={folder}"]
    with subprocess.Popen(
        [*command, "--port=0", "--model_name=digits"], stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stderr.readline()
        address = re.fullmatch(
            r"ut-serve: digits, version 1 of \S+/export, at (\S+) \(serving_default\)\n", line
        )
        try:
            assert address is not None, line
            client = RestClient(address[1], "digits")
            answers = client.predict([{"inputs": text} for text in WRITTEN["inputs"]])
            assert [answer["outputs"] for answer in answers] == WRITTEN["outputs"]
            # Longer than the signal takes to arrive.
            many = [{"inputs": "1234567890"}] * 600
            late: list[object] = []
            asking = threading.Thread(target=lambda: late.extend(client.predict(many)))
            asking.start()
            asking.join(0.3)
        finally:
            process.send_signal(signal.SIGTERM)
        asking.join()
        rest = process.stderr.read()
    assert process.returncode == 0
    assert len(late) == 600
    assert rest == ("\nanswering the requests that have arrived; a second signal stops at once\n")


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
