"""Translation: from files, Multi30k's files and tensorflow-datasets' records to batches, codec and
raw text.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from ut_tf import registry
from ut_tf.bin import datagen, flags, trainer
from ut_tf.bin.flags import FlagError
from ut_tf.bin.option_values import problem_arguments
from ut_tf.bin.options import FILE_FLAGS, PROBLEM_ARGS
from ut_tf.config.training import TrainingConfig
from ut_tf.data import download
from ut_tf.data.batch_plan import bucket_bounds
from ut_tf.data.pipeline import eval_batches, train_batches
from ut_tf.errors import UserError
from ut_tf.factories import make_problem
from ut_tf.problems.translation import multi30k as translation_multi30k
from ut_tf.problems.translation import wmt14 as translation_wmt
from ut_tf.problems.translation.multi30k import TranslateMulti30k
from ut_tf.problems.translation.own_files import TranslateFiles
from ut_tf.problems.translation.wmt14 import TranslateWmt14
from ut_tf.run import Run
from ut_tf.symbols import END_ID
from ut_tf.training.warm_start import refuse_other_vocabulary

REAL_DATA = Path(__file__).parents[4] / "shared" / "data" / "multi30k"
TRAIN = [
    (f"the number {n} and {'so ' * (n % 9)}on", f"die Zahl {n} und {'immer ' * (n % 4)}weiter")
    for n in range(200)
]
DEV = [
    ("the number  7", "die Zahl sieben"),
    ("", "leer"),
    ("a number 😀", "eine Zahl"),
    ("x\u2028y", "z "),
]
TEST = [("the end", "das Ende"), ("so on", "und so weiter")]


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> tuple[str, str]:
    """Writes the two sides of pairs and returns the names of their files."""
    paths = []
    for side, language in enumerate(("en", "de")):
        path = folder / f"{name}.{language}.gz"
        path.write_bytes(gzip.compress("".join(f"{pair[side]}\n" for pair in pairs).encode()))
        paths.append(str(path))
    return paths[0], paths[1]


def problem_of(folder: Path, **options: Any) -> TranslateFiles:
    """Returns the problem of the files train, dev and test in a folder."""
    names = {"": "train", "dev_": "dev", "test_": "test"}
    files = {
        f"{prefix}{side}_files": f"{folder}/{name}.{language}.gz"
        for prefix, name in names.items()
        for side, language in (("source", "en"), ("target", "de"))
    }
    return TranslateFiles(**{"vocab_size": 320, **files, **options})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of train, dev and test; data/ below it is prepared."""
    folder = tmp_path_factory.mktemp("files")
    for name, pairs in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        write(folder, name, pairs)
    problem_of(folder).prepare(folder / "data", folder)
    return folder


def told(problem: Any, split: str, data_dir: Path, **options: Any) -> list[tuple[str, str]]:
    """Returns each example as text."""
    codec = problem.text_codec(problem.vocab_files(data_dir)[0].parent)
    examples = list(problem.dataset(split, data_dir, **options).as_numpy_iterator())
    sides = ([example[name] for example in examples] for name in ("inputs", "targets"))
    texts = (
        codec.decode(tf.ragged.constant(side, dtype=tf.int32).to_tensor()).numpy() for side in sides
    )
    return [(source.decode(), target.decode()) for source, target in zip(*texts, strict=True)]


def plain(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the pairs with one blank where there are several, and none at the ends."""
    return [
        (" ".join(source.split(" ")).strip().replace("  ", " "), target.strip())
        for source, target in pairs
    ]


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


def test_raw_text_is_kept_as_it_stood(folder: Path) -> None:
    problem = problem_of(folder)
    assert list(zip(*problem.text_pairs("validation", folder / "data"), strict=True)) == DEV
    assert list(zip(*problem.text_pairs("test", folder / "data"), strict=True)) == TEST
    with pytest.raises(UserError, match="raw training text"):
        problem.text_pairs("train", folder / "data")


def test_order_follows_from_seed_and_epoch(folder: Path) -> None:
    problem = problem_of(folder)
    first = told(problem, "train", folder / "data", seed=1, epoch=0)
    assert first == told(problem_of(folder), "train", folder / "data", seed=1, epoch=0)
    assert (
        len(
            {
                str(told(problem, "train", folder / "data", seed=seed, epoch=epoch))
                for seed in (1, 2)
                for epoch in (0, 1)
            }
        )
        == 4
    )
    assert told(problem, "test", folder / "data", seed=1, epoch=3) == TEST


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_a_batch_has_at_most_its_tokens_of_either_side(folder: Path, num_replicas: int) -> None:
    problem, training = problem_of(folder), TrainingConfig(batch_size=300, max_length=40)
    lengths = problem.examples("train", folder / "data").lengths
    batches = list(
        train_batches(
            problem, folder / "data", training, num_replicas, seed=0, epoch=0
        ).as_numpy_iterator()
    )
    bounds = bucket_bounds(
        training.min_length_bucket, training.length_bucket_step, training.max_length
    )
    not_full: Counter[int] = Counter()
    for batch in batches:
        assert batch["inputs"].size <= 300 and batch["targets"].size <= 300
        bound = next(
            bound
            for bound in bounds
            if bound >= max(batch["inputs"].shape[1], batch["targets"].shape[1])
        )
        not_full[bound] += len(batch["inputs"]) < 300 // bound
    assert max(not_full.values()) <= num_replicas, "only the last batch of a bucket has room left"
    assert sum(batch["weight"].sum() for batch in batches) == (lengths <= 40).sum()
    seen = sorted(
        tuple(row[row > 0]) for batch in batches for row in batch["inputs"][batch["weight"] > 0]
    )
    every = sorted(
        tuple(example["inputs"])
        for example in problem.dataset("train", folder / "data").as_numpy_iterator()
    )
    assert seen == every


def test_reverse_shares_the_data_and_swaps_the_sides(folder: Path) -> None:
    problem, other = problem_of(folder), problem_of(folder, reverse=True)
    assert other.vocab_files(folder / "data") == problem.vocab_files(folder / "data")
    other.prepare(folder / "data", folder / "nowhere")
    assert told(other, "test", folder / "data") == [(target, source) for source, target in TEST]
    assert (
        other.text_pairs("test", folder / "data")
        == problem.text_pairs("test", folder / "data")[::-1]
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
    with pytest.raises(
        UserError,
        match=(
            r"dev\.de\.gz has changed since .* put the former file back, or delete that folder and"
            r" begin new runs"
        ),
    ):
        problem.prepare(tmp_path / "data", tmp_path)
    shutil.rmtree(tmp_path / "copy")
    problem.prepare(tmp_path / "data", tmp_path)
    assert told(problem, "validation", tmp_path / "data") == plain(DEV)


@pytest.mark.parametrize(
    "name", ["subwords.model", "summary.json", "train-00000.npz", "validation-00000.npz"]
)
@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_damaged_data_is_named(folder: Path, tmp_path: Path, name: str, kept: float) -> None:
    shutil.copytree(folder / "data", tmp_path / "data")
    (path,) = (tmp_path / "data").rglob(name)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    problem = problem_of(folder)
    with pytest.raises(
        UserError, match=rf"{path.parent} is damaged .*: delete it, it will be prepared again"
    ):
        problem.prepare(tmp_path / "data", tmp_path)
        problem.examples("train", tmp_path / "data")
        problem.examples("validation", tmp_path / "data")
    shutil.rmtree(path.parent)
    problem.prepare(tmp_path / "data", tmp_path)
    assert told(problem_of(folder), "test", tmp_path / "data") == TEST


def test_a_missing_shard_is_damage(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "data", tmp_path / "data")
    next((tmp_path / "data").rglob("train-00000.npz")).unlink()
    with pytest.raises(UserError, match="0 train pairs where 200 were written"):
        problem_of(folder).examples("train", tmp_path / "data")


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
    with pytest.raises(
        UserError,
        match=r"`vocab_size`=310: .*'babi_sim' trains no subword vocabulary; set `vocab_size`=0",
    ):
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
        "wmt14-ende-bpe37000",
        "wmt14-ende-bpe32000",
        "wmt14-enfr-bpe32000",
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


def test_multi30k_without_network_says_where_to_put_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation_multi30k, "_ADDRESS", "http://127.0.0.1:9")
    with pytest.raises(
        UserError,
        match=r"translate_deen_multi30k needs train\.en\.gz, .*multi30k .*put the file there",
    ):
        make_problem("translate_deen_multi30k", {}).prepare(tmp_path / "data", tmp_path)
    assert set(translation_multi30k.CHECKSUMS) == {
        f"{part}.{language}.gz"
        for part in ("train", "val", "test_2016_flickr")
        for language in ("en", "de", "fr")
    }


@pytest.mark.skipif(not REAL_DATA.is_dir(), reason="Multi30k's files are not there")
def test_real_multi30k(tmp_path: Path) -> None:
    problem = TranslateMulti30k("de")
    problem.prepare(tmp_path, REAL_DATA)
    assert problem.spec(tmp_path).input_vocab_size == 8000
    assert [
        len(problem.examples(split, tmp_path)) for split in ("train", "validation", "test")
    ] == [29000, 1014, 1000]
    codec = problem.text_codec(problem.vocab_files(tmp_path)[0].parent)
    for side in problem.text_pairs("test", tmp_path):
        again = [
            text.decode() for text in codec.decode(codec.encode_targets(tf.constant(side))).numpy()
        ]
        assert again == [" ".join(part for part in text.split(" ") if part) for text in side]


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


def test_without_network_the_answer_comes_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation_wmt, "_SERVER", "http://127.0.0.1:9/europarl.tgz")
    start = time.monotonic()
    with pytest.raises(
        UserError, match=r"127\.0\.0\.1:9.*prepare wmt14_translate/fr-en .* translate_files"
    ):
        make_problem("translate_fren_wmt14", {}).prepare(tmp_path, tmp_path)
    monkeypatch.setattr(download, "_open", lambda _: time.sleep(3))
    with pytest.raises(UserError, match="no answer within 1 seconds"):
        download.check_reachable("http://127.0.0.1/x", "it", "wait", answer_seconds=0.6)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--problem=babi_qa", "--source_files=a"],
            "--source_files: problem babi_qa takes no such files",
        ),
        (
            ["--problem=translate_ende_wmt14", "--target_files=a"],
            "--target_files: problem translate_ende_wmt14 takes no such files",
        ),
        (
            ["--problem=algorithmic_copy_decimal40", "--vocab_file=a"],
            "--vocab_file: problem algorithmic_copy_decimal40",
        ),
        (["--problem=translate_files"], "--source_files is missing"),
        (["--problem=translate_files_rev", "--target_files=a"], "--source_files is missing"),
        (
            ["--problem=translate_files", "--source_files=a", "--problem_args=source_files=b"],
            "both give source_files",
        ),
        (
            ["--problem=translate_files", "--source_files=a", "--dev_target_files=b"],
            "--dev_source_files is missing",
        ),
        (
            ["--problem=translate_files", "--source_files=a", "--vocab_file=,"],
            "--vocab_file=,: expected the name of a file.",
        ),
        (
            ["--problem=translate_files", "--source_files=a", "--vocab_file=b,c"],
            "--vocab_file=b,c: expected the name of a file alone.",
        ),
        (
            ["--problem=translate_files", "--source_files= ,"],
            "--source_files= ,: expected the name of a file.",
        ),
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
    values = flags.parse("ut-x", "", (PROBLEM_ARGS, *FILE_FLAGS), argv)
    assert problem_arguments(values, ["translate_files"]) == {
        "max_characters": 5,
        "source_files": [f"{tmp_path}/a.en", f"{tmp_path}/b/c.en"],
        "target_files": [f"{tmp_path}/a.de"],
        "vocab_file": f"{tmp_path}/my.model",
    }
    with pytest.raises(FlagError):
        problem_arguments(values, ["babi_qa"])


def test_files_in_the_problem_s_arguments_become_absolute_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (
        "source_files=pairs.tsv,vocab_file=my.model",
        {"source_files": ("pairs.tsv",), "vocab_file": "my.model"},
    ):
        run = Run.plan(
            "translate_files", "ut_tiny", problem_args=given, output_dir=tmp_path / "run"
        )
        assert run.problem_args == {
            "source_files": [f"{tmp_path}/pairs.tsv"],
            "vocab_file": f"{tmp_path}/my.model",
        }


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
    with pytest.raises(
        UserError,
        match=r"put back the files it was trained on .* or begin a new run in another `output_dir`",
    ):
        first.prepare()
    second = Run.create(
        "translate_files",
        "ut_tiny",
        "vocab_size=320",
        output_dir=tmp_path / "run2",
        **places,
        problem_args=arguments,
    )
    with pytest.raises(
        UserError,
        match=rf"subwords\.model\), .* `vocab_file`={first.vocab_dir}/subwords\.model in a new",
    ):
        refuse_other_vocabulary(dataclasses.replace(first, vocab_sha256={}), second)
    with pytest.raises(UserError, match="its vocabulary is not that of"):
        refuse_other_vocabulary(first, second)
    refuse_other_vocabulary(second, second)
    path.write_bytes(former)
    shutil.rmtree(tmp_path / "data")
    first.prepare()


def test_problems_of_the_user_may_take_files_too() -> None:
    values = flags.parse("ut-x", "", (PROBLEM_ARGS, *FILE_FLAGS), ["--source_files=/a"])
    assert problem_arguments(values, ["problem_of_the_user"]) == {"source_files": ["/a"]}


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for name in ("vocab_size", "max_characters", "max_length_ratio", "processes"):
        with pytest.raises(UserError, match=f"`{name}`=-1: expected at least 0"):
            TranslateFiles(**{name: -1})
    with pytest.raises(UserError, match="expected bpe or unigram"):
        TranslateFiles(subword_model="word")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^`dev_source_files` is missing"):
        TranslateFiles("a", "b", dev_target_files="c")
    with pytest.raises(UserError, match="has no training text"):
        TranslateFiles().prepare(tmp_path, tmp_path)
    with pytest.raises(UserError, match=r"gone\.en cannot be read \(No such file"):
        TranslateFiles(
            source_files=str(tmp_path / "gone.en"), target_files=str(tmp_path / "gone.de")
        ).prepare(tmp_path, tmp_path)
