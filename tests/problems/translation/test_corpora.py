"""Multi30k's files and tensorflow-datasets' records of WMT14."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow_datasets as tfds

from tests.problems.translation.small_corpus import DEV, TEST, TRAIN, plain, told, write
from ut_tf import registry
from ut_tf.bin import datagen, trainer
from ut_tf.errors import UserError
from ut_tf.problems.translation import wmt14 as translation_wmt
from ut_tf.problems.translation.multi30k import TranslateMulti30k
from ut_tf.problems.translation.own_files import TranslateFiles
from ut_tf.problems.translation.wmt14 import TranslateWmt14


def test_names_are_known_and_reverses_share_their_folder(tmp_path: Path) -> None:
    for name, other in (
        ("translate_ende_wmt14", "translate_deen_wmt14"),
        ("translate_enfr_wmt14", "translate_fren_wmt14"),
        ("translate_ende_wmt32k", "translate_ende_wmt32k_rev"),
        ("translate_ende_multi30k", "translate_deen_multi30k"),
        ("translate_enfr_multi30k", "translate_fren_multi30k"),
        ("translate_files", "translate_files_rev"),
    ):
        problem, reverse = (registry.problems.get(one)() for one in (name, other))
        assert (problem.name, problem.reverse, reverse.reverse) == (name, False, True)
        assert problem.vocab_files(tmp_path) == reverse.vocab_files(tmp_path)
    folders = {
        registry.problems.get(name)().vocab_files(tmp_path)[0].parent.name.rpartition("-")[0]
        for name in (
            "translate_ende_wmt14",
            "translate_ende_wmt32k",
            "translate_enfr_wmt32k",
            "translate_enfr_wmt8k",
        )
    }
    assert folders == {
        *("wmt14-ende-bpe37000", "wmt14-ende-bpe32000", "wmt14-enfr-bpe32000"),
        "wmt14-enfr-bpe8000",
    }


def test_multi30k_is_read_from_tmp_dir_or_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "multi30k").mkdir()
    write(tmp_path, "train", TRAIN)
    write(tmp_path / "multi30k", "val", DEV)
    write(tmp_path, "test_2016_flickr", TEST)
    problem = TranslateMulti30k("de", vocab_size=320)
    problem.prepare(tmp_path / "data", tmp_path)
    assert capsys.readouterr().err.count("is not the published archive") == 6
    assert told(problem, "test", tmp_path / "data") == TEST
    assert list(zip(*problem.text_pairs("validation", tmp_path / "data"), strict=True)) == DEV


class FakeWmt14(tfds.translate.wmt14.Wmt14Translate, skip_registration=True):
    """Writes a few pairs as tensorflow-datasets would write WMT14."""

    name = "wmt14_translate"

    def _split_generators(self, dl_manager: Any) -> Any:
        del dl_manager
        return {
            split: self._generate_examples(pairs)
            for split, pairs in (("train", TRAIN), ("validation", DEV), ("test", TEST))
        }

    def _generate_examples(
        self, pairs: list[tuple[str, str]]
    ) -> Iterator[tuple[int, dict[str, str]]]:
        for number, (source, target) in enumerate(pairs):
            yield number, {"en": source.replace("y", "\n"), "de": target}


@pytest.mark.slow
def test_what_tensorflow_datasets_prepared_before_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeWmt14(config="de-en", data_dir=str(tmp_path)).download_and_prepare()
    monkeypatch.setattr(
        translation_wmt, "check_reachable", lambda *_: pytest.fail("the data is there")
    )
    problem = TranslateWmt14("de", vocab_size=320)
    problem.prepare(tmp_path, tmp_path / "nowhere")
    assert sorted(told(problem, "train", tmp_path)) == sorted(plain(TRAIN))
    sources, targets = problem.text_pairs("validation", tmp_path)
    assert sorted(zip(sources, targets, strict=True)) == sorted(
        (source.replace("y", " "), target) for source, target in DEV
    )
    reverse = TranslateWmt14("de", vocab_size=320, reverse=True)
    reverse.prepare(tmp_path, tmp_path / "nowhere")
    assert sorted(told(reverse, "test", tmp_path)) == sorted(
        (target, source) for source, target in TEST
    )


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
