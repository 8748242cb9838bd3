"""Texts and classes from the user's files: what they may look like, what is wrong with them, the
commands from training to an exported model.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.config.training import TrainingConfig
from ut_tf.data.text.subwords import Subwords, train_subwords
from ut_tf.errors import UserError
from ut_tf.factories import make_problem
from ut_tf.problems.own_files.classify import ClassifyFiles
from ut_tf.problems.own_files.labelled_text import LabelledFiles, read_labelled

COLOURS = {"warm": "red", "cold": "blue"}
EXAMPLES = [
    (label, f"the {COLOURS[label]} number {n}") for n in range(100) for label in ("warm", "cold")
]
DEV = [("cold", "a blue thing"), ("warm", "red again"), ("cold", "blue blue")]


def write(folder: Path, name: str, examples: list[tuple[str, str]]) -> str:
    path = folder / name
    path.write_text("".join(f"{label}\t{text}\n" for label, text in examples), encoding="utf-8")
    return str(path)


def problem_of(folder: Path, **options: Any) -> ClassifyFiles:
    files = {"source_files": write(folder, "train.tsv", EXAMPLES)}
    return ClassifyFiles(**{**files, "vocab_size": 300, **options})


def told(problem: ClassifyFiles, split: str, data: Path, **options: Any) -> list[tuple[str, str]]:
    """Each example's label and text."""
    codec = problem.text_codec(problem.vocab_files(data)[0].parent)
    examples = list(problem.dataset(split, data, **options).as_numpy_iterator())
    labels = codec.decode(tf.constant([example["targets"] for example in examples]))
    ids = tf.ragged.constant([example["inputs"].tolist() for example in examples]).to_tensor()
    texts = codec._texts.decode(ids)
    pairs = zip(labels.numpy(), texts.numpy(), strict=True)
    return [(label.decode(), text.decode()) for label, text in pairs]


FORMS = {
    "lines.tsv": "good\tI liked it.\nbad\tI did not.\n",
    "fasttext.txt": "__label__good I liked it.\n__label__bad I did not.\n",
    "table.csv": 'id,text,label\n1,"I liked\n it.",good\n2,I did not.,bad\n',
    "objects.jsonl": '{"text": "I liked it.", "label": "good"}\n'
    '{"label": "bad", "text": "I did not."}\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_of_file_gives_the_same_examples(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FORMS[name], encoding="utf-8-sig")
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(FORMS[name].encode()))
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        examples = list(read_labelled(LabelledFiles((path,))))
        assert [example.label for example in examples] == ["good", "bad"]
        assert [example.text.replace("\n", "") for example in examples] == [
            "I liked it.",
            "I did not.",
        ]
    assert examples[1].place.endswith("line 4" if name.startswith("table") else "line 2")


def test_labels_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("one\ntwo\n")
    (tmp_path / "labels").write_text("1\n2\n")
    files = LabelledFiles((tmp_path / "texts",), (tmp_path / "labels",))
    assert [example[:2] for example in read_labelled(files)] == [("one", "1"), ("two", "2")]
    (tmp_path / "labels").write_text("1\n")
    with pytest.raises(UserError, match=r"texts has more lines than .*labels.* line 2"):
        list(read_labelled(files))


def test_a_tenth_of_each_class_is_held_out_and_not_trained_on(tmp_path: Path) -> None:
    problem = problem_of(tmp_path)
    problem.prepare(tmp_path / "data", tmp_path)
    train, validation = (
        told(problem, split, tmp_path / "data") for split in ("train", "validation")
    )
    assert [label for label, _ in validation].count("warm") == 10
    assert len(validation) == 20
    assert not {*train} & {*validation}
    assert sorted(train + validation) == sorted(EXAMPLES)
    again = told(problem_of(tmp_path), "train", tmp_path / "data", seed=0, epoch=1)
    assert again != train and sorted(again) == sorted(train)


def test_lines_say_what_is_prepared_and_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"{label}\t{label} text\n" for label in ("cold", "warm") for _ in range(2)]
    others = [f"cold\ta text of number {number}\n" for number in range(3)]
    (tmp_path / "own.tsv").write_text("".join(texts + others))
    problem = ClassifyFiles(source_files=str(tmp_path / "own.tsv"))
    problem.prepare(tmp_path / "data", tmp_path)
    errors = capsys.readouterr().err
    assert "1 training text left out, since the same text" in errors
    assert "classify_files: 4 texts for training, 2 texts for validation; " in errors


def test_files_for_validation_and_test_are_judged_as_they_are(tmp_path: Path) -> None:
    dev, test = write(tmp_path, "dev.tsv", DEV), write(tmp_path, "test.tsv", DEV[:2])
    problem = problem_of(tmp_path, dev_source_files=dev, test_source_files=test)
    problem.prepare(tmp_path / "data", tmp_path)
    assert told(problem, "validation", tmp_path / "data") == DEV
    assert told(problem, "test", tmp_path / "data") == DEV[:2]
    assert problem.evaluation_sets()[0].split == "test"
    assert problem_of(tmp_path).evaluation_sets()[0].split == "validation"


def test_the_codec_gives_the_ids_that_were_trained_on_also_of_long_texts(tmp_path: Path) -> None:
    dev = write(tmp_path, "dev.tsv", [("cold", "blue " * 30), ("warm", "x")])
    problem = problem_of(tmp_path, dev_source_files=dev, max_subwords=7)
    problem.prepare(tmp_path / "data", tmp_path)
    codec = problem.text_codec(problem.vocab_files(tmp_path / "data")[0].parent)
    examples = list(problem.dataset("validation", tmp_path / "data"))
    ids = codec.encode(tf.constant(["blue " * 30, "x"]))["inputs"].numpy()
    assert len(examples[0]["inputs"]) == 8
    np.testing.assert_array_equal(ids[0], examples[0]["inputs"])
    np.testing.assert_array_equal(ids[1][ids[1] > 0], examples[1]["inputs"])
    classes = codec.encode_targets(tf.constant(["warm", " cold", "other"]))
    np.testing.assert_array_equal(classes, [1, 0, -1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"good\tyes\n\nbad\tno\n", "line 2 is empty"),
        (b"good\tyes\nbad no\n", "line 2: 'bad no' has no tab"),
        (b"good\tyes\n\tno\n", "line 2 has no label"),
        (b"good\tyes\nbad\t \n", "line 2 has no text"),
        (b"good\tyes\nbad\t\xff\n", "line 2: byte 5 of the line is not UTF-8"),
        (b"good\tyes\ngood\tno\n", "all 2 texts have the label 'good'"),
        (b"yes\tgood\nno\tbad\nmaybe\tbad\n", "3 texts have 3 different labels"),
        (b"__label__a __label__b yes\n", "line 1 has more than one label"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(
    content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "texts.tsv").write_bytes(content)
    problem = ClassifyFiles(source_files=str(tmp_path / "texts.tsv"))
    with pytest.raises(UserError, match=message):
        problem.prepare(tmp_path / "data", tmp_path)


def test_a_label_that_was_not_trained_is_told_with_its_line(tmp_path: Path) -> None:
    dev = write(tmp_path, "dev.tsv", [("cold", "x"), ("wam", "y")])
    with pytest.raises(UserError, match=r"dev.tsv, line 2: .*'wam'; did you mean warm"):
        problem_of(tmp_path, dev_source_files=dev).prepare(tmp_path / "data", tmp_path)


def read(folder: Path, *lines: str) -> list[tuple[str, str]]:
    path = folder / "t.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [example[:2] for example in read_labelled(LabelledFiles((path,)))]


def written(text: str, label: str) -> str:
    return f'{{"text": {text}, "label": {label}}}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("null", "null"),
        ('["a", "b"]', "a list"),
        ("{}", "an object"),
        ("true", "true"),
        ("3", "3"),
        ("NaN", "NaN"),
        ('"\\ud800"', r'"\\ud800"'),
        ("[" * 700 + "]" * 700, "a list"),
    ],
)
def test_a_text_is_a_string(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"t\.jsonl, line 2: the text is {told}: expected a text"):
        read(tmp_path, written('"fine"', '"good"'), written(text, '"good"'))


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


FILES = {
    "classify_files": lambda n: f"{'even' if n % 2 == 0 else 'odd'}\tthe number {n * 7919}\n",
    "lm_files": lambda n: f"the number {n * 7919} of many\n",
    "translate_files": lambda n: f"the number {n * 7919}\tdie Zahl {n * 7919}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_the_vocabulary_of_a_new_run_follows_the_size_of_its_text(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "own.tsv").write_text("".join(map(FILES[name], range(300))))
    folders = []
    arguments = {"source_files": [str(tmp_path / "own.tsv")]}
    # Of a run of version 0.4, of a new run, and of a new one in the way of 0.4.
    former = {"fit_vocabulary": False, "disjoint_splits": False}
    for version, more in ((1, {}), (2, {}), (2, former)):
        training = TrainingConfig(vocab_size=5000)
        problem = make_problem(name, {**arguments, **more}, training, version)
        problem.prepare(tmp_path / "data", tmp_path)
        (path,) = (
            path for path in problem.vocab_files(tmp_path / "data") if path.suffix == ".model"
        )
        folders.append((path.parent, Subwords(path.read_bytes()).size))
    assert folders[0] == folders[2] != folders[1]
    characters = sum(len(FILES[name](n)) for n in range(300))
    assert folders[1][1] <= 259 + 60 + characters // 100 < folders[0][1]


@pytest.mark.parametrize("name", FILES)
def test_a_text_may_be_read_by_its_characters(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.tsv").write_text("".join(map(FILES[name], range(100))))
    training = TrainingConfig(vocab_size=5000, subword_model="char")
    problem = make_problem(name, {"source_files": [str(tmp_path / "own.tsv")]}, training)
    problem.prepare(tmp_path / "data", tmp_path)
    assert "too small" not in capsys.readouterr().err
    (path,) = (path for path in problem.vocab_files(tmp_path / "data") if path.suffix == ".model")
    subwords = Subwords(path.read_bytes())
    assert len(subwords.encode(["12 number"])[0]) == len("▁12▁number") + 1


@pytest.mark.parametrize("name", FILES)
def test_a_vocabulary_that_was_made_for_other_text_is_noticed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    english = [f"the number {n} of many words" for n in range(50)]
    (tmp_path / "english.model").write_bytes(train_subwords(english, 330, exact=False))
    greek = {
        "classify_files": lambda n: f"{n % 2}\tο αριθμός {n} από πολλούς\n",
        "lm_files": lambda n: f"ο αριθμός {n} από πολλούς\n",
        "translate_files": lambda n: f"the number {n} of words\tο αριθμός {n} από πολλούς\n",
    }[name]
    for write, is_other in ((FILES[name], False), (greek, True)):
        (tmp_path / "own.tsv").write_text("".join(map(write, range(60))))
        arguments = {
            "source_files": [str(tmp_path / "own.tsv")],
            "vocab_file": str(tmp_path / "english.model"),
        }
        make_problem(name, arguments).prepare(tmp_path / f"data{is_other}", tmp_path)
        told = capsys.readouterr().err
        assert (
            "are single bytes or unknown: the vocabulary was made for other" in told
        ) == is_other
        if name == "translate_files" and is_other:
            assert "the targets for train of translate_files" in told
            assert "the sources for" not in told
