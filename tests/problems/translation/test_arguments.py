"""Translation's files as flags and arguments, and arguments that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from ut_tf.bin import datagen, trainer
from ut_tf.bin.frame import flags
from ut_tf.bin.frame.declarations import shared
from ut_tf.bin.frame.flag_values import problem_arguments
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.shared_flags import FILE_FLAGS
from ut_tf.errors import UserError
from ut_tf.problems.translation.own_files import TranslateFiles


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--problem=babi_qa", "--source_files=a"], "--source_files"),
        (["--problem=translate_files"], "--source_files is missing"),
        (
            ["--problem=translate_files", "--source_files=a", "--problem_args=source_files=b"],
            "both give source_files",
        ),
        (
            ["--problem=translate_files", "--source_files=a", "--dev_target_files=b"],
            "--dev_source_files is missing",
        ),
        (["--problem=translate_files", "--source_files=a", "--vocab_file=b,c"], "--vocab_file=b,c"),
    ],
)
def test_flags_that_do_not_go_together(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trainer.main([*argv, "--hparams_set=ut_tiny"]) == datagen.main(argv) == 2
    assert capsys.readouterr().err.count(message) == 2


def test_flags_become_absolute_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    argv = [
        "--source_files=a.en, b/c.en",
        f"--target_files={tmp_path}/a.de",
        "--vocab_file=my.model",
        "--problem_args=max_characters=5",
    ]
    values = flags.parse("ut-x", "", (*shared("problem_args"), *FILE_FLAGS), argv)
    assert problem_arguments(values, ["translate_files"]) == {
        "max_characters": 5,
        "source_files": [f"{tmp_path}/a.en", f"{tmp_path}/b/c.en"],
        "target_files": [f"{tmp_path}/a.de"],
        "vocab_file": f"{tmp_path}/my.model",
    }
    with pytest.raises(FlagError):
        problem_arguments(values, ["babi_qa"])


def test_a_pattern_skips_the_problem_that_needs_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared: list[str] = []
    monkeypatch.setattr(datagen, "prepare_data", lambda problem, *_: prepared.append(problem.name))
    assert datagen.main(["--problem=translate_*"]) == 0
    assert (
        "ut-datagen: skips translate_files and translate_files_rev, which need files"
        in capsys.readouterr().err
    )
    assert len(prepared) > 5 and not [
        name for name in prepared if name.startswith("translate_files")
    ]
    assert (
        datagen.main(["--problem=translate_files*"])
        == datagen.main(["--problem=translate_*,translate_files"])
        == 2
    )


def test_what_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("vocab_size", "max_characters", "max_length_ratio", "processes"):
        with pytest.raises(UserError, match=f"`{name}`=-1: expected at least 0"):
            TranslateFiles(**{name: -1})
    with pytest.raises(UserError, match="expected bpe, unigram or char"):
        TranslateFiles(subword_model="word")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"`subword_dropout`=1: expected from 0 to below 1"):
        TranslateFiles(subword_dropout=1)
    with pytest.raises(UserError, match=r"`subword_dropout`=0.1: expected 0 with `subword_model`"):
        TranslateFiles(subword_dropout=0.1, subword_model="unigram")
    with pytest.raises(UserError, match=r"^`dev_source_files` is missing"):
        TranslateFiles("a", "b", dev_target_files="c")
    with pytest.raises(UserError, match="has no training text"):
        TranslateFiles().prepare(tmp_path, tmp_path)
    with pytest.raises(UserError, match=r"gone\.en cannot be read \(No such file"):
        TranslateFiles(
            source_files=str(tmp_path / "gone.en"), target_files=str(tmp_path / "gone.de")
        ).prepare(tmp_path, tmp_path)
    assert "preparing" not in capsys.readouterr().err
