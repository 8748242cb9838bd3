"""ut-exporter: from a run directory to a folder that other programs load, and its messages."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.bin.quick_commands import call_commands
from tests.bin.tiny_runs import digits_run, translation_run
from tests.serving import toy
from ut_tf.bin import eval as eval_command
from ut_tf.bin import exporter, insights
from ut_tf.evaluation.records import read_records
from ut_tf.serving.versions import SUMMARY_FILE
from ut_tf.serving.warmup import FILE as WARMUP_FILE


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return toy.untrained_run(tmp_path_factory.mktemp("run"), "letters", "halting=none,num_steps=1")


def _flags(run, *more):
    return [f"--output_dir={run.output_dir}", "--decode_hparams=beam_size=1,extra_length=3", *more]


def test_the_folder_is_the_last_line_and_is_written_once(run, tmp_path, capsys):
    flags = _flags(
        run,
        f"--export_dir={tmp_path}/served",
        "--signatures=score",
        "--quantize=int8",
        "--nowarmup",
    )
    assert exporter.main(flags) == 0
    captured = capsys.readouterr()
    folder = tmp_path / "served" / "1"
    assert captured.out == f"{folder}\n"
    assert "letters with letters_tiny, checkpoint best:" in captured.err
    summary = json.loads((folder / SUMMARY_FILE).read_text())
    assert (list(summary["signatures"]), summary["quantize"]) == (["score"], "int8")
    assert (summary["decode"]["beam_size"], summary["decode"]["extra_length"]) == (1, 3)
    assert not (folder / WARMUP_FILE).exists()

    assert exporter.main([*flags, "--version=1"]) == 1
    assert f"{folder} already exists" in capsys.readouterr().err
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_what_the_run_does_not_have(run, tmp_path, capsys):
    for flag, expected in (
        ("--signatures=ponders", "did you mean ponder"),
        ("--checkpoint=7", "checkpoint=7"),
    ):
        assert exporter.main(_flags(run, flag, f"--export_dir={tmp_path}/served")) == 1
        assert expected in capsys.readouterr().err
    assert not (tmp_path / "served").exists()


STORED_RUN = Path(__file__).parents[1] / "stored_runs" / "transformer_subwords" / "run"
QUICK_ANSWERS: tuple[tuple[list[str], int, str], ...] = (
    ([], 2, "--output_dir is missing"),
    (["--output_dir=x", "--dtype=float16"], 2, "--dtype=float16: expected float32 or bfloat16"),
    (["--output_dir=x", "--format=onnx"], 2, "--format=onnx: expected savedmodel or litert"),
    (
        ["--output_dir=x", "--format=litert", "--decode_hparams=beam_size=1"],
        2,
        "--decode_hparams goes with --format=savedmodel",
    ),
    ([f"--output_dir={STORED_RUN}", "--decode_hparams=beam=4"], 2, "did you mean beam_size"),
    ([f"--output_dir={STORED_RUN}", "--checkpoint=besst"], 1, "there is no besst"),
)


def test_mistakes_are_answered_without_tensorflow() -> None:
    answers = call_commands([("exporter", argv) for argv, *_ in QUICK_ANSWERS])
    for (argv, status, expected), answer in zip(QUICK_ANSWERS, answers, strict=True):
        assert (answer.status, answer.imported) == (status, []), argv
        assert expected in answer.output + answer.errors
        assert answer.errors.count("\n") == (1 if status else 0)


@pytest.mark.usefixtures("eager")
def test_texts_and_test_examples_become_files(tmp_path: Path, capsys: Any) -> None:
    run = digits_run(tmp_path / "run", problem="prefix_sums_32").output_dir
    lines = tmp_path / "lines.gz"
    lines.write_bytes(gzip.compress(b"10\n"))
    flags = [f"--input_file={lines}", "--input=01", "--examples=1", "--hparams=eval_num_steps=2"]
    files = [tmp_path / "out" / name for name in ("think.html", "think.json")]
    written = [f"--{path.suffix[1:]}={path}" for path in files]
    assert insights.main([f"--output_dir={run}", *flags, *written]) == 0
    assert capsys.readouterr().out.split() == [str(path) for path in files]
    document = json.loads(files[1].read_text(encoding="utf-8"))
    assert [example["input"] for example in document["examples"][:2]] == ["01", "10"]
    assert document["examples"][2]["id"].startswith("test-")
    assert document["examples"][0]["thoughts"][0]["parts"][0]["steps"] == 2
    assert '"ut-tf-insights"' in files[0].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--input=3x"], "--input, line 1: '3x' is not what this problem reads"),
        (["--input=3", "--compare_with=/nonexistent"], "holds no run"),
        (["--input=3", "--hparams=eval_exit=kl,eval_exit_threshold=-1"], "eval_exit_threshold"),
    ],
)
def test_a_mistake_is_one_sentence(
    flags: list[str], sentence: str, tmp_path: Path, capsys: Any
) -> None:
    run = digits_run(tmp_path / "run").output_dir
    assert insights.main([f"--output_dir={run}", f"--json={tmp_path}/a.json", *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ut-insights: error: ") and sentence in line


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_the_search_can_be_changed_and_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = translation_run(tmp_path, steps=(100,))
    flags = [f"--output_dir={run.output_dir}", "--json=record"]
    assert eval_command.main(flags) == 0
    plain = json.loads(capsys.readouterr().out)
    options = "--decode_hparams=alpha=0.6,beam_size=1,max_length=1"
    assert eval_command.main([*flags, options]) == 0
    told = capsys.readouterr()
    assert "used with alpha=0.6,beam_size=1,max_length=1" in told.err
    record = json.loads(told.out)
    # A length penalty of 0.6 is what it would have been.
    assert record["decode"] == "beam_size=1,max_length=1"
    assert record["metrics"]["chrf"] != plain["metrics"]["chrf"]
    kept = [record.used_with for record in read_records(run.output_dir)]
    assert kept == ["", "beam_size=1,max_length=1"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--decode_hparams=alpa=1"], "--decode_hparams: .*did you mean alpha"),
        (
            ["--decode_hparams=alpha=1", "--test_problem=translate_ende_multi30k"],
            "--decode_hparams and --test_problem do not go together",
        ),
        (["--decode_hparams=alpha=1", "--exit_sweep"], "--decode_hparams and --exit_sweep do not"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert eval_command.main([f"--output_dir={STORED_RUN}", *flags]) == 2
    errors = capsys.readouterr().err.replace("\n", " ")
    assert re.search(message, errors)


@pytest.mark.slow
def test_without_a_name_it_lies_in_the_run_directory(run, capsys):
    assert (
        exporter.main(
            _flags(
                run, "--signatures=score, ponder", "--version=4", f"--checkpoint_path={toy.STEP}"
            )
        )
        == 0
    )
    assert capsys.readouterr().out == f"{run.output_dir}/export/4\n"
    folder = run.output_dir / "export" / "4"
    assert (folder / WARMUP_FILE).is_file()
    assert set(json.loads((folder / SUMMARY_FILE).read_text())["signatures"]) == {"score", "ponder"}
