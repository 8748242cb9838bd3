"""ut-serve: a process that answers from an export until it is told to end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading

from tests.bin.quick_commands import call_commands
from tests.serving import toy
from ut_tf.search.config import DecodeConfig
from ut_tf.serving.export import export_run
from ut_tf.serving.rest import RestClient


def test_it_answers_until_sigterm(tmp_path):
    run = toy.untrained_run(tmp_path, "letters", "halting=none,num_steps=1")
    folder = export_run(
        run,
        run.output_dir / "export",
        decode=DecodeConfig(beam_size=1, extra_length=3),
        signatures=["serving_default"],
    )
    texts = ["abc", "j", "", "jihgfedcba"]
    expected = toy.Loaded(folder).ask("serving_default", inputs=texts)["outputs"]
    command = [sys.executable, "-m", "ut_tf.bin.serve", f"--export_dir={folder.parent}"]
    with subprocess.Popen(
        [*command, "--port=0", "--model_name=letters"], stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stderr.readline()
        address = re.fullmatch(
            r"ut-serve: letters, version 1 of \S+/export, at (\S+) \(serving_default\)\n", line
        )
        try:
            assert address is not None, line
            client = RestClient(address[1], "letters")
            answers = client.predict([{"inputs": text} for text in texts])
            assert [answer["outputs"].encode() for answer in answers] == expected.tolist()
            # Longer than the signal takes to arrive.
            many = [{"inputs": "abcdefghij"}] * 600
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
