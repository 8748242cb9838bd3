"""Refusals that need no TensorFlow come before it is imported, and leave nothing behind."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.bin.quick_commands import call_commands
from tests.bin.stub_runs import stub_run
from ut_tf.data.prepared import check_sources, source_record
from ut_tf.errors import UserError

STORED = Path(__file__).parents[1] / "stored_runs"
RUN, EXPORT = STORED / "transformer_subwords" / "run", STORED / "ut_halting_reverse" / "export"
TRANSLATE = ("--problem=translate_files", "--hparams_set=ut_translate_small")
BABI = ("--problem=babi_sim", "--hparams_set=ut_demo")


def test_refusals_without_tensorflow(tmp_path: Path) -> None:
    file, new = tmp_path / "file", tmp_path / "new"
    untrained = stub_run(tmp_path / "untrained", "babi_sim", trained=False)
    file.write_text("text\n")
    missing, of_run = "--source_files=/nonexistent/a", f"--output_dir={RUN}"
    cases = (
        ("trainer", [*TRANSLATE, missing, f"--output_dir={new}"], "/nonexistent/a cannot be read"),
        ("trainer", [*BABI, f"--output_dir={file}/run"], "cannot be written: Not a directory"),
        (
            "trainer",
            [*BABI, f"--output_dir={new}", f"--warm_start_from={untrained}"],
            "there is no checkpoint in",
        ),
        ("trainer", ["--schedule=evaluate", f"--output_dir={untrained}"], "there is no checkpoint"),
        ("bleu", ["--checkpoints", of_run, "--steps=7"], "no checkpoint of step 7"),
        ("bleu", ["--checkpoints", of_run, "--split=dev"], "has the splits validation, test"),
        ("avg_checkpoints", [f"--output_dir={untrained}"], "there is no checkpoint in"),
        ("eval", [of_run, "--split=dev"], "has the splits train, validation, test"),
        ("eval", [of_run, "--test_problem=lm_files"], "--test_problem_args=source_files=FILE"),
        (
            "exporter",
            [of_run, "--format=model", f"--export_dir={tmp_path}"],
            "exists: name another",
        ),
        ("decoder", [of_run, f"--decode_to_file={tmp_path}"], "is a folder: name a file"),
        ("decoder", [of_run, f"--decode_to_file={file}/out"], "file/out cannot be written (Not a"),
        ("serve", [f"--export_dir={EXPORT}", "--output_dir=/nonexistent"], "holds no run"),
    )
    before = sorted(tmp_path.iterdir())
    answers = call_commands([(module, argv) for module, argv, _ in cases])
    for (module, argv, expected), answer in zip(cases, answers, strict=True):
        assert answer.imported == [], (module, argv)
        assert expected in answer.errors, (module, argv)
        assert answer.status and answer.errors.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_port_in_use_is_found_before_tensorflow_is_imported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = f"--port={taken.getsockname()[1]}"
        answers = call_commands(
            [
                ("serve", [f"--export_dir={EXPORT}", port]),
                ("insights", [f"--output_dir={RUN}", "--serve", port]),
            ]
        )
    for answer in answers:
        assert "cannot be listened at" in answer.errors
        assert "tensorflow" not in answer.imported


def test_a_file_that_has_gone_is_not_missed_once_it_was_prepared(tmp_path: Path) -> None:
    file, summary = tmp_path / "text.en", tmp_path / "data" / "translation" / "files-1"
    file.write_text("one\n")
    record = source_record(file)
    file.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        check_sources([file], tmp_path / "data")
    summary.mkdir(parents=True)
    (summary / "summary.json").write_text(json.dumps({"files": [record]}))
    check_sources([file], tmp_path / "data")
