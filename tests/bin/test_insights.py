"""ut-insights on run directories that were made without training."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import ut_tf
from tests.bin.tiny_runs import digits_run
from ut_tf.bin import insights


def test_texts_and_test_examples_become_files(tmp_path: Path, capsys: Any) -> None:
    run = digits_run(tmp_path / "run").output_dir
    lines = tmp_path / "lines.gz"
    lines.write_bytes(gzip.compress(b"27\n"))
    flags = [f"--input_file={lines}", "--input=31", "--examples=1", "--hparams=eval_num_steps=2"]
    files = [tmp_path / "out" / name for name in ("think.html", "think.json")]
    written = [f"--{path.suffix[1:]}={path}" for path in files]
    assert insights.main([f"--output_dir={run}", *flags, *written]) == 0
    assert capsys.readouterr().out.split() == [str(path) for path in files]
    document = json.loads(files[1].read_text(encoding="utf-8"))
    assert [example["input"] for example in document["examples"][:2]] == ["31", "27"]
    assert document["examples"][2]["id"].startswith("test-")
    assert document["examples"][0]["thoughts"][0]["parts"][0]["steps"] == 2
    assert '"ut-tf-insights"' in files[0].read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_saved_model_takes_the_place_of_a_run(tmp_path: Path) -> None:
    ut_tf.save(digits_run(tmp_path / "run"), tmp_path / "model")
    file = tmp_path / "think.json"
    flags = [f"--model={tmp_path}/model", "--input=31", "--hparams=eval_num_steps=3"]
    assert insights.main([*flags, f"--json={file}"]) == 0
    (run,) = json.loads(file.read_text(encoding="utf-8"))["runs"]
    assert (run["name"], run["checkpoint"]) == ("model", 100)


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
