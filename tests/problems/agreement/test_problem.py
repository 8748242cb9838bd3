"""Agreement of subject and verb: the published table, the simplified files, the wrong forms of
verbs, examples and codec.
"""

from __future__ import annotations

import gzip
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.data.pipeline import eval_batches
from ut_tf.errors import UserError
from ut_tf.problems.agreement.files import TABLE, Dependency, read_simplified, read_table
from ut_tf.problems.agreement.problem import SvaLanguageModeling, SvaNumberPrediction
from ut_tf.problems.agreement.verb_forms import other_forms
from ut_tf.symbols import END_ID

COLUMNS = [
    *("sentence", "orig_sentence", "pos_sentence", "subj", "verb", "subj_pos", "has_rel"),
    *("has_nsubj", "verb_pos", "subj_index", "verb_index", "n_intervening", "last_intervening"),
    *("n_diff_intervening", "distance", "max_depth", "all_nouns", "nouns_up_to_verb"),
]


def table_line(sentence: str, verb: str, form: str, between: int = 0, different: int = 0) -> str:
    """Returns a line of the table for a sentence, with what is read of it, and something in every
    other column.
    """
    values = dict.fromkeys(COLUMNS, "x")
    values |= {
        "sentence": sentence,
        "verb": verb,
        "verb_pos": form,
        "verb_index": str(sentence.split().index(verb) + 1),
    }
    values |= {"n_intervening": str(between), "n_diff_intervening": str(different)}
    return "\t".join(values[name] for name in COLUMNS)


def write_table(folder: Path, lines: list[str]) -> Path:
    path = folder / TABLE.file
    path.write_bytes(gzip.compress("\n".join(["\t".join(COLUMNS), *lines, ""]).encode()))
    return path


def sentences() -> list[str]:
    """Returns 400 lines: four kinds of sentences, one of which has a noun of the subject's number
    before its verb.
    """
    kinds = [
        table_line("the keys to the cabinet are here .", "are", "VBP", 1, 1),
        table_line("the key to the cabinet is here .", "is", "VBZ", 1, 0),
        table_line("the man walks .", "walks", "VBZ"),
        table_line("the men walk .", "walk", "VBP"),
    ]
    return [kind for _ in range(100) for kind in kinds]


def write_simplified(folder: Path, names: dict[str, int]) -> Path:
    """Writes files of distinct lines, as many as asked for; the tag follows from the subject."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in names.items():
        rows = [
            f"{'VBP' if n % 2 else 'VBZ'}\tthe key{'s' * (n % 2)} {name.replace('.', '')} of n{n}"
            for n in range(count)
        ]
        (folder / f"numpred.{name}").write_text("\n".join([*rows, ""]), encoding="utf-8")
    return folder


FILES = {"val": 40, "test.1": 100, "test.2": 8, "test.3": 6}


@pytest.mark.parametrize(
    ("verb", "form", "expected"),
    [
        ("is", "VBZ", {"am", "are"}),
        ("are", "VBP", {"is"}),
        ("has", "VBZ", {"have"}),
        ("goes", "VBZ", {"go"}),
        ("lay", "VBP", {"lays"}),
        ("dies", "VBZ", {"die"}),
        ("qwrtz", "VBP", set()),
    ],
)
def test_other_forms_of_verbs(verb: str, form: str, expected: set[str]) -> None:
    assert {*other_forms(verb, form)} == expected


def test_the_table_is_divided_as_published(tmp_path: Path) -> None:
    splits = read_table(write_table(tmp_path, sentences()))
    assert (len(splits.train), len(splits.validation)) == (36, 4)
    # Sentences with a noun of the subject's own number between are in training and validation, and
    # left out of the test.
    rest = Counter(one.text for one in splits.test)
    assert "the key to the cabinet is here ." not in rest
    told = Counter(
        one.text for part in (splits.train, splits.validation, splits.test) for one in part
    )
    assert told["the keys to the cabinet are here ."] == 100
    assert {one.attractors for one in splits.test} == {0, 1}
    assert splits == read_table(tmp_path / TABLE.file), "the same division every time"


def test_language_modelling_on_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rare = [
        table_line("the men qwrtz .", "qwrtz", "VBP"),
        table_line("the men snore .", "snore", "VBP"),
    ] * 40
    write_table(tmp_path, [*sentences(), *rare])
    problem = SvaLanguageModeling(disjoint_splits=False)
    problem.prepare(tmp_path / "data", tmp_path)
    told = capsys.readouterr().err
    assert (
        "no other form of the verb is known" in told
        and "the verb's other form is not in the vocabulary" in told
    )
    words = [
        "",
        "",
        *problem.vocab_files(tmp_path / "data")[0].read_text(encoding="utf-8").splitlines(),
    ]
    pairs = set()
    for example in problem.dataset("test", tmp_path / "data"):
        text = [words[number] for number in example["targets"].numpy()]
        pairs.add((text[-1], words[int(example["alternative"])], int(example["attractors"])))
    assert pairs == {("are", "is", 1), ("walks", "walk", 0), ("walk", "walks", 0)}
    trained = {
        tuple(words[number] for number in example["targets"].numpy())
        for example in problem.dataset("train", tmp_path / "data")
    }
    assert ("the", "keys", "to", "the", "cabinet", "are", "here", ".", "") in trained, (
        "whole sentences and the end"
    )
    assert problem.data_note(tmp_path / "data") == ""
    assert problem.spec(tmp_path / "data").target_vocab_size == len(words)


def test_number_prediction_sees_the_words_before_the_verb_alone(tmp_path: Path) -> None:
    write_table(tmp_path, sentences())
    problem = SvaNumberPrediction(disjoint_splits=False)
    problem.prepare(tmp_path / "data", tmp_path)
    codec = problem.text_codec(problem.vocab_files(tmp_path / "data")[0].parent)
    examples = list(problem.dataset("test", tmp_path / "data"))
    plural = codec.encode(tf.constant(["the keys to the cabinet"]))["inputs"][0].numpy().tolist()
    found = {tuple(one["inputs"].numpy()): int(one["targets"]) for one in examples}
    assert found[tuple(plural)] == 1 and all(ids[-1] == END_ID for ids in found)
    assert codec.decode(tf.constant([0, 1])).numpy().tolist() == [b"singular", b"plural"]
    assert codec.encode_targets(tf.constant(["plural", "both"])).numpy().tolist() == [1, -1]


def test_simplified_files_without_a_training_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_simplified(tmp_path / "rnn_agr_simple", FILES)
    # A line of the test that is trained on would be known by heart.
    repeated = (folder / "numpred.test.2").read_text(encoding="utf-8").splitlines()[0]
    with (folder / "numpred.val").open("a", encoding="utf-8") as file:
        file.write(f"{repeated}\n")
    splits = read_simplified(folder)
    assert (len(splits.train) + len(splits.validation), len(splits.validation)) == (130, 6)
    assert Counter(one.attractors for one in splits.test) == {1: 10, 2: 8, 3: 6}
    texts = [{one.text for one in part} for part in (splits.train, splits.validation, splits.test)]
    assert not any(one & other for one, other in itertools.combinations(texts, 2))
    problem = SvaLanguageModeling(disjoint_splits=False)
    problem.prepare(tmp_path / "data", tmp_path)
    assert "1 left out that stand in the test too" in capsys.readouterr().err
    assert (
        problem.data_note(tmp_path / "data")
        == "simplified files, trained on numpred.val and 90 % of numpred.test.1"
    )
    words = [
        "",
        "",
        *problem.vocab_files(tmp_path / "data")[0].read_text(encoding="utf-8").splitlines(),
    ]
    for split in ("train", "test"):
        for one in problem.dataset(split, tmp_path / "data"):
            text = [words[number] for number in one["targets"].numpy()]
            assert text[-1] == ("VBP" if "keys" in text else "VBZ"), (
                "the tag ends the line, in training too"
            )
            assert split == "train" or {text[-1], words[int(one["alternative"])]} == {"VBZ", "VBP"}
    codec = problem.text_codec(problem.vocab_files(tmp_path / "data")[0].parent)
    written = codec.encode_targets(tf.constant([" ".join(text), "the keys xyzzy"]))
    np.testing.assert_array_equal(written[0], one["targets"])
    assert written[1].numpy().tolist()[:4] == [*map(words.index, ("the", "keys", "<unknown>")), 0]
    assert codec.decode(written).numpy()[0].decode() == " ".join(text)
    assert codec.unknown_words(["the keys xyzzy"]) == ["xyzzy"]


def test_simplified_files_with_a_training_file(tmp_path: Path) -> None:
    folder = write_simplified(
        tmp_path / "agreement" / "rnn_agr_simple",
        {"train": 30, "valid": 10, "test.0": 12, "test.1": 8},
    )
    splits = read_simplified(folder)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [30, 10, 20]
    problem = SvaNumberPrediction(disjoint_splits=False)
    problem.prepare(tmp_path / "data", tmp_path)
    batches = list(
        eval_batches(problem, problem.evaluation_sets()[0], tmp_path / "data", batch_tokens=200)
    )
    groups = Counter(
        int(group)
        for batch in batches
        for group in batch["attractors"].numpy()[batch["weight"].numpy() > 0]
    )
    assert groups == {0: 12, 1: 8}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [*lines[:2], lines[2].replace("VBZ", "VBD")], "line 3: verb_pos 'VBD'"),
        (
            lambda lines: [
                lines[0],
                table_line("they are", "are", "VBP").replace("\t2\t", "\t3\t"),
            ],
            "line 2: verb_index 3",
        ),
        (
            lambda lines: [lines[0], table_line("they are", "are", "VBP").replace("\t2\t", "\t\t")],
            "line 2: verb_index ''",
        ),
        (lambda lines: lines[:5], "too few to divide"),
    ],
)
def test_a_table_that_is_not_of_the_format_is_refused(tmp_path: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    lines = change(["\t".join(COLUMNS), *sentences()])
    path = tmp_path / TABLE.file
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    with pytest.raises(UserError, match=message) as refusal:
        read_table(path)
    assert str(path) in str(refusal.value)


def test_a_table_that_is_cut_off_or_badly_encoded_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [table_line(f"w{rng.integers(10**9)} men walk .", "walk", "VBP") for _ in range(500)]
    path = write_table(tmp_path, lines)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"cannot be unpacked after line \d+ .*cut off"):
        read_table(path)
    path.write_bytes(
        gzip.compress("\n".join(["\t".join(COLUMNS), *lines[:3]]).encode() + b"\n\xff\n")
    )
    with pytest.raises(UserError, match="line 5: byte 1 of the line is not UTF-8"):
        read_table(path)
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match="line 1: there is no column"):
        read_table(path)


def test_of_two_wrong_forms_the_more_common_one_is_ranked() -> None:
    ids = {"he": 2, "is": 3, "are": 4, "am": 5}
    example = SvaLanguageModeling().example(Dependency("he is", 1, "VBZ", 0), ids, False, False)
    assert not isinstance(example, str) and example.answer == ids["are"]
