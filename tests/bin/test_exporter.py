"""ut-exporter: from a run directory to a folder that other programs load, and its messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bin.quick_commands import call_commands
from tests.serving import toy
from ut_tf.bin import exporter
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
    scores = toy.Loaded(folder).ask("score", inputs=["abc"], targets=["cba"])
    assert scores["log_probabilities"].shape == (1,)

    assert exporter.main([*flags, "--version=1"]) == 1
    assert f"{folder} already exists" in capsys.readouterr().err
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


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
    (
        ["--output_dir=x", "--format=onnx"],
        2,
        "--format=onnx: expected savedmodel or litert",
    ),
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
