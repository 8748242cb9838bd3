"""Records of results: what they say of a run, which runs are refused, and that they replace."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.bin.stub_runs import evaluate
from tests.tables.finished_runs import PROCESSOR, finished_run
from ut_tf.bin import report
from ut_tf.bin.trainer_flags import checked_run
from ut_tf.errors import UserError
from ut_tf.storage.processes import read_processes, write_processes
from ut_tf.tables.record import read_records

TASK2 = "babi_qa_task2_10k"
LAYOUT = """
babi:
  lines: [task, set]
  task: babi_qa_task(\\d+)_10k
  figures:
  - {title: error, metrics: [error], digits: 1, paper: {"2": "0.3"}}
"""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "tables.yaml").write_text(LAYOUT)
    return tmp_path / "results" / "babi.jsonl"


def record(run: Path, kept: Path, *flags: str, status: int = 0) -> None:
    assert report.main([str(run), f"--record={kept}", "--table=babi", *flags]) == status


def test_a_record_says_all_that_a_reader_needs(tmp_path: Path, kept: Path) -> None:
    run = finished_run(
        tmp_path / "run",
        TASK2,
        {"error": 1.5, "loss": 0.1},
        seed=3,
        overrides="dropout=0.2",
        intervals={"error": [0.9, 2.4]},
        parameters=206_650,
    )
    record(run, kept)
    (found,) = read_records([kept])
    assert (found.row, found.metric, found.value, found.interval) == (
        "UT",
        "error",
        1.5,
        (0.9, 2.4),
    )
    assert (found.paper, found.examples, found.step, found.seed) == ("0.3", 1000, 100, 3)
    assert (found.minutes, found.processor_minutes) == (2.0, 3.5)
    assert found.processor == {**PROCESSOR, "devices": "the CPU"}
    assert (found.version, found.commit) == ("0.5.0", "a" * 40)
    assert found.test_read == ("2026-01-01T00:00:00+00:00",)
    assert found.selection == {"metric": "error", "direction": "min", "value": 1.0}
    lines = (kept.parent / str(found.curve)).read_text().splitlines()
    assert lines[0] == "step,train/loss,eval/error"
    assert lines[2].startswith("100,") and lines[2].endswith(",1")
    assert found.command is not None
    words = shlex.split(found.command)
    assert words[0] == "ut-trainer"
    again = checked_run(words[1:])
    assert (again.problem, again.seed, again.overrides) == (TASK2, 3, "dropout=0.2")
    assert "--train_steps=100" in words
    assert found.evaluation == f"ut-eval --output_dir=runs/{TASK2}-ut_babi-seed3"


def test_a_record_names_the_machine_that_made_the_checkpoint(tmp_path: Path, kept: Path) -> None:
    run = finished_run(tmp_path / "run", TASK2, {"error": 1.0})
    first = read_processes(run)[0]
    later = dataclasses.replace(
        first, begun_at=100, train_steps=200, devices="GPU", commit="b" * 40
    )
    write_processes(run, [first, later])
    record(run, kept)
    (found,) = read_records([kept])
    assert found.processor == {**PROCESSOR, "devices": "the CPU"}
    assert found.commit == "a" * 40


def test_the_same_run_and_figure_stands_in_the_earlier_one_s_place(
    tmp_path: Path, kept: Path
) -> None:
    runs = [
        finished_run(tmp_path / "runs" / str(seed), TASK2, {"error": float(seed)}, seed=seed)
        for seed in range(3)
    ]
    record(tmp_path / "runs", kept)
    evaluate(runs[1], {"error": 7.5}, validation=1.0)
    record(runs[1], kept)
    assert [item.value for item in read_records([kept])] == [0.0, 7.5, 2.0]
    # The data was read twice, which the record does not hide.
    assert [len(item.test_read or ()) for item in read_records([kept])] == [1, 2, 1]


def test_another_training_length_or_warm_start_is_another_run(tmp_path: Path, kept: Path) -> None:
    run = finished_run(tmp_path / "run", TASK2, {"error": 1.0})
    record(run, kept)
    process = read_processes(run)[0]
    changes: list[dict[str, Any]] = [
        {"train_steps": 2000},
        {"train_steps": 200},
        {"warm_start_from": "/home/me/base"},
    ]
    for change in changes:
        write_processes(run, [dataclasses.replace(process, **change)])
        record(run, kept)
    records = read_records([kept])
    # 2000 are the set's own updates.
    assert [item.training for item in records] == [(100, ""), (None, ""), (200, ""), (100, "base")]
    assert "--warm_start_from=runs/base" in str(records[-1].command)
    assert len({item.curve for item in records}) == 4


def test_what_was_changed_for_the_evaluation_is_in_the_command(tmp_path: Path, kept: Path) -> None:
    run = finished_run(tmp_path / "run", TASK2, {"error": 1.0})
    record(run, kept)
    evaluate(run, {"error": 0.5}, 1.0, hparams="eval_num_steps=5", decode="alpha=1.2,beam_size=8")
    record(run, kept)
    plain, changed = read_records([kept])
    assert (plain.used_with, plain.value) == ("", 1.0)
    assert (changed.used_with, changed.value) == ("eval_num_steps=5,alpha=1.2,beam_size=8", 0.5)
    assert changed.recipe.endswith(", used with eval_num_steps=5,alpha=1.2,beam_size=8")
    words = shlex.split(str(changed.evaluation))[-2:]
    assert words == ["--hparams=eval_num_steps=5", "--decode_hparams=alpha=1.2,beam_size=8"]


def test_runs_that_are_no_result_are_refused(
    tmp_path: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = finished_run(tmp_path / "runs" / "good", TASK2, {"error": 1.0})
    interrupted = finished_run(
        tmp_path / "runs" / "interrupted", TASK2, {"error": 2.0}, seed=1, ended="signal"
    )
    last = finished_run(tmp_path / "runs" / "last", TASK2, {"error": 3.0}, seed=2)
    (last / "checkpoints" / "best.json").write_text('{"step": 50}')
    old = finished_run(tmp_path / "runs" / "old", TASK2, {"error": 4.0}, seed=4)
    (old / "processes.jsonl").unlink()
    other = finished_run(tmp_path / "runs" / "other", TASK2, {"loss": 4.0}, seed=5)
    record(tmp_path / "runs", kept, status=1)
    told = capsys.readouterr().err
    assert f"{interrupted} is not finished: it was interrupted at step 100 of 100" in told
    assert f"{last}: the checkpoint of step 100 was not chosen by validation" in told
    assert "its last checkpoint is of step 100 of 2000" in told
    assert f"{other} has none of the figures error" in told
    assert f"1 run recorded in {kept}" in told
    assert [item.value for item in read_records([kept])] == [1.0]
    assert good.exists()


def test_a_file_is_whole_or_as_it_was_and_tells_a_broken_line(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished_run(tmp_path / "run", TASK2, {"error": 1.0})
    record(run, kept)
    before = kept.read_text()

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ut_tf.storage.files.os.replace", fails)
        record(run, kept, "--metrics=error", status=1)
    assert kept.read_text() == before
    values = json.loads(before)
    for change, expected in (
        ({"value": "1.0"}, "value cannot be"),
        ({"value": True}, "value cannot be true"),
        ({"interval": ["a", "b"]}, "interval cannot be"),
    ):
        kept.write_text(before + json.dumps({**values, **change}) + "\n")
        with pytest.raises(UserError, match=rf"babi.jsonl:2 is no record of a result \({expected}"):
            read_records([kept])
    kept.write_bytes(before.encode() + b"\xff\n")
    with pytest.raises(UserError, match=r"babi.jsonl:2 .*\(it is no JSON object in UTF-8\)"):
        read_records([kept])


def test_files_are_named_without_their_folders(tmp_path: Path, kept: Path) -> None:
    arguments = {"train_files": ["/home/me/novels.tar.xz"], "evaluate_on": "development"}
    run = finished_run(
        tmp_path / "run",
        "lambada_rc",
        {"accuracy": 0.2},
        hparams_set="ut_lambada_rc",
        problem_args=arguments,
        direction="max",
    )
    record(run, kept, "--metrics=accuracy", "--row=reading")
    (found,) = read_records([kept])
    assert "/home/me" not in found.to_json()
    assert "--problem_args=train_files=novels.tar.xz,evaluate_on=development" in str(found.command)
