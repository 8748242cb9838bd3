"""Translation: from files, Multi30k's files and tensorflow-datasets' records to batches, codec and
raw text.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.translation.small_corpus import DEV, TEST, TRAIN, plain, problem_of, told
from ut_tf.config.training import TrainingConfig
from ut_tf.data.pipeline import eval_batches
from ut_tf.errors import UserError
from ut_tf.factories import make_problem
from ut_tf.problems.translation.own_files import TranslateFiles
from ut_tf.run import Run
from ut_tf.symbols import END_ID
from ut_tf.training.warm_start import refuse_other_vocabulary


def test_examples_are_the_lines_of_the_files(folder: Path) -> None:
    problem, data = problem_of(folder), folder / "data"
    assert told(problem, "validation", data) == plain(DEV)
    assert told(problem, "test", data) == TEST
    assert sorted(told(problem, "train", data)) == sorted(plain(TRAIN))
    spec = problem.spec(data)
    assert (spec.inputs, spec.targets, spec.input_vocab_size, spec.target_vocab_size) == (
        "tokens",
        "tokens",
        320,
        320,
    )
    assert spec.shared_vocab
    empty = list(problem.dataset("validation", data))[1]
    assert empty["inputs"].numpy().tolist() == [END_ID]


def test_a_large_corpus_comes_in_pools(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, data = problem_of(folder), folder / "data"
    assert problem.example_pools(data, seed=1, epoch=0) is None
    monkeypatch.setattr("ut_tf.problems.translation.problem.LARGEST_TABLE", 10)
    pools = problem.example_pools(data, seed=1, epoch=0)
    assert pools is not None and pools.count == 1
    pool = pools.pool(0)
    rows = pool.load()(np.arange(len(pool.lengths)))
    pairs = Counter(
        (tuple(source[source > 0]), tuple(target[target > 0]))
        for source, target in zip(rows["inputs"], rows["targets"], strict=True)
    )
    whole = problem.dataset("train", data).as_numpy_iterator()
    assert pairs == Counter((tuple(pair["inputs"]), tuple(pair["targets"])) for pair in whole)


def test_codec_gives_the_ids_that_were_trained_on(folder: Path) -> None:
    problem, data = problem_of(folder), folder / "data"
    codec = problem.text_codec(problem.vocab_files(data)[0].parent)
    sources, targets = problem.text_pairs("validation", data)
    for source, target, example in zip(
        sources, targets, problem.dataset("validation", data), strict=True
    ):
        np.testing.assert_array_equal(
            codec.encode(tf.constant([source]))["inputs"][0], example["inputs"]
        )
        np.testing.assert_array_equal(
            codec.encode_targets(tf.constant([target]))[0], example["targets"]
        )


def test_what_is_judged(folder: Path) -> None:
    problem = problem_of(folder)
    for split, sets in (
        ("test", problem.evaluation_sets()),
        ("validation", problem.validation_sets()),
    ):
        assert [(item.name, item.split, item.method) for item in sets] == [
            ("", split, "teacher_forced"),
            ("", split, "translate"),
        ]
    assert problem.selection_metric == ("bleu", "max")
    without = problem_of(folder, test_source_files="", test_target_files="")
    assert {item.split for item in without.evaluation_sets()} == {"validation"}
    batch = next(
        iter(
            eval_batches(problem, problem.validation_sets()[0], folder / "data", batch_examples=10)
        )
    )
    assert batch["inputs"].shape[0] == len(DEV), "nothing is left out of what is judged"


def test_one_file_with_tabs_and_no_validation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{source}\t{target}\tmore\n" for source, target in TRAIN)
    )
    problem = TranslateFiles(source_files=str(tmp_path / "pairs.tsv"), vocab_size=320)
    problem.prepare(tmp_path / "data", tmp_path)
    assert "4 pairs held out for validation" in capsys.readouterr().err
    sources, targets = problem.text_pairs("validation", tmp_path / "data")
    assert len(sources) == 4 and set(zip(sources, targets, strict=True)) < {*TRAIN}
    assert len(told(problem, "train", tmp_path / "data")) == 196
    assert {item.split for item in problem.evaluation_sets()} == {"validation"}
    with pytest.raises(UserError, match="no split 'test'"):
        problem.examples("test", tmp_path / "data")


def test_prepared_data_needs_no_files_and_changed_files_are_told(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("data"))
    problem = problem_of(tmp_path / "copy")
    problem.prepare(tmp_path / "data", tmp_path)
    path = tmp_path / "copy" / "dev.de.gz"
    os.utime(path, (1, 1))
    problem.prepare(tmp_path / "data", tmp_path)
    path.write_bytes(gzip.compress(b"anders\n" * 4))
    with pytest.raises(UserError, match=r"dev\.de\.gz has changed since .* put the former file"):
        problem.prepare(tmp_path / "data", tmp_path)
    shutil.rmtree(tmp_path / "copy")
    problem.prepare(tmp_path / "data", tmp_path)
    assert told(problem, "validation", tmp_path / "data") == plain(DEV)


def test_a_given_vocabulary_is_used(folder: Path, tmp_path: Path) -> None:
    given = problem_of(folder).vocab_files(folder / "data")[0]
    problem = problem_of(folder, vocab_file=str(given), vocab_size=0)
    problem.prepare(tmp_path, tmp_path)
    assert problem.vocab_files(tmp_path)[0].read_bytes() == given.read_bytes()
    assert problem.spec(tmp_path).input_vocab_size == 320
    assert told(problem, "test", tmp_path) == TEST
    with pytest.raises(UserError, match=r"absent\.model"):
        problem_of(folder, vocab_file="absent.model").prepare(tmp_path, tmp_path)


def test_size_and_kind_of_the_vocabulary_are_hyperparameters(folder: Path) -> None:
    files = {"source_files": [f"{folder}/train.en.gz"], "target_files": [f"{folder}/train.de.gz"]}
    training = TrainingConfig(vocab_size=310, subword_model="unigram")
    by_hparams = make_problem("translate_files", files, training)
    explicit = make_problem(
        "translate_files", {**files, "vocab_size": 310, "subword_model": "unigram"}
    )
    assert by_hparams.vocab_files(folder) == explicit.vocab_files(folder)
    stronger = make_problem("translate_files", {**files, "vocab_size": 305}, training)
    assert stronger.vocab_files(folder) != by_hparams.vocab_files(folder)
    with pytest.raises(UserError, match=r"`vocab_size`=310: .*'babi_sim' takes no `vocab_size`"):
        make_problem("babi_sim", {}, training)


def test_a_run_decodes_from_its_own_folder_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    arguments = {
        "source_files": [f"{folder}/train.en.gz"],
        "target_files": [f"{folder}/train.de.gz"],
    }
    first = Run.create(
        "translate_files",
        "ut_tiny",
        "vocab_size=320",
        output_dir=tmp_path / "run",
        data_dir=tmp_path / "data",
        tmp_dir=tmp_path,
        problem_args=arguments,
    )
    assert first.spec is not None and first.spec.input_vocab_size == 320
    shutil.move(tmp_path / "run", tmp_path / "moved")
    shutil.rmtree(tmp_path / "data")
    run = Run.load(tmp_path / "moved")
    codec = run.make_problem().text_codec(run.vocab_dir)
    assert codec.decode(codec.encode(tf.constant(["the number 5"]))["inputs"]).numpy().tolist() == [
        b"the number 5"
    ]


def test_changed_files_are_no_dead_end(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("data"))
    path = tmp_path / "copy" / "train.en.gz"
    arguments = {"source_files": [str(path)], "target_files": [str(path.with_name("train.de.gz"))]}
    places = {"data_dir": tmp_path / "data", "tmp_dir": tmp_path}
    first = Run.create(
        "translate_files",
        "ut_tiny",
        "vocab_size=320",
        output_dir=tmp_path / "run",
        **places,
        problem_args=arguments,
    )
    former = path.read_bytes()
    path.write_bytes(gzip.compress(gzip.decompress(former).replace(b"number", b"cipher")))
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(UserError, match=r"put back the files it was trained on .* or begin a new"):
        first.prepare()
    second = Run.create(
        "translate_files",
        "ut_tiny",
        "vocab_size=320",
        output_dir=tmp_path / "run2",
        **places,
        problem_args=arguments,
    )
    with pytest.raises(UserError, match=r"subwords\.model\)"):
        refuse_other_vocabulary(dataclasses.replace(first, vocab_sha256={}), second)
    with pytest.raises(UserError, match="its vocabulary is not that of"):
        refuse_other_vocabulary(first, second)
    refuse_other_vocabulary(second, second)
    path.write_bytes(former)
    shutil.rmtree(tmp_path / "data")
    first.prepare()


@pytest.mark.slow
def test_subword_dropout_splits_training_pairs_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(folder, subword_dropout=0.3)
    data_dir = folder / "data"
    assert sorted(told(problem, "train", data_dir)) == sorted(plain(TRAIN))

    def ids(problem: TranslateFiles, split: str, epoch: int) -> list[list[int]]:
        examples = problem.dataset(split, data_dir, epoch=epoch).as_numpy_iterator()
        return sorted(example["targets"].tolist() for example in examples)

    whole = problem_of(folder)
    assert ids(problem, "validation", 0) == ids(whole, "validation", 0)
    first, other = ids(problem, "train", 0), ids(whole, "train", 0)
    assert first == ids(problem_of(folder, subword_dropout=0.3), "train", 0)
    assert ids(problem, "train", 1) != first != other
    monkeypatch.setattr("ut_tf.problems.translation.problem.LARGEST_TABLE", 10)
    with pytest.raises(UserError, match=r"`subword_dropout`=0\.3: expected 0 for more than 10"):
        problem.example_pools(data_dir, seed=0, epoch=0)
