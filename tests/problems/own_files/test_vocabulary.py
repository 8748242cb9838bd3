"""The vocabulary of one's own files, which are often few."""

from __future__ import annotations

from pathlib import Path

import pytest

from ut_tf.config.training import TrainingConfig
from ut_tf.factories import make_problem


@pytest.mark.parametrize("name", ["classify_files", "lm_files"])
def test_a_small_text_has_fewer_subwords_than_were_asked_for_and_a_line_says_so(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{label}\tthe {label} number {n}" for n in range(50) for label in ("red", "blue")]
    (tmp_path / "own.tsv").write_text("\n".join(lines))
    arguments = {"source_files": [str(tmp_path / "own.tsv")]}
    problem = make_problem(name, arguments, TrainingConfig(vocab_size=5000))
    problem.prepare(tmp_path / "data", tmp_path)
    spec = problem.spec(tmp_path / "data")
    size = max(spec.input_vocab_size, spec.target_vocab_size)
    assert 256 < size < 5000
    told = f"{name}: the vocabulary has {size} subwords instead of 5,000"
    assert capsys.readouterr().err.count(told) == 1
