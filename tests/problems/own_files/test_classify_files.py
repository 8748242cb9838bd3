"""Texts and classes from the user's files: what they may look like, what is wrong with them, the
commands from training to an exported model.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from ut_tf.bin import decoder, exporter, trainer
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
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
    texts = [codec._texts.decode(tf.constant([example["inputs"]]))[0] for example in examples]
    return [
        (label.decode(), text.numpy().decode())
        for label, text in zip(labels.numpy(), texts, strict=True)
    ]


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


def test_of_many_classes_the_rare_ones_are_reported_together(tmp_path: Path) -> None:
    examples = [(f"c{n}", f"text {n} {m}") for n in range(25) for m in range(3 if n < 20 else 2)]
    dev = write(tmp_path, "dev.tsv", examples)
    problem = problem_of(
        tmp_path, source_files=write(tmp_path, "all.tsv", examples), dev_source_files=dev
    )
    problem.prepare(tmp_path / "data", tmp_path)
    reported = [row["class"].numpy() for row in problem.dataset("validation", tmp_path / "data")]
    assert reported == [
        (label if int(label[1:]) < 20 else "other").encode() for label, _ in examples
    ]
    assert "class" not in problem.examples("train", tmp_path / "data").batch([0])


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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "sentence,label\nyes,good\n", "line 1: the columns are 'sentence', 'label'"),
        ("a.csv", "text,label\nyes,it is,good\n", "line 2: it has 3 columns, the header 2"),
        ("a.jsonl", "[" * 100_000, "line 1: .*expected an object"),
        ("a.jsonl", '{"text": "yes"}\n', "line 1: .*expected an object"),
    ],
)
def test_tables_and_objects_need_their_columns(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        list(read_labelled(LabelledFiles((tmp_path / name,))))


def test_a_label_that_was_not_trained_is_told_with_its_line(tmp_path: Path) -> None:
    dev = write(tmp_path, "dev.tsv", [("cold", "x"), ("wam", "y")])
    with pytest.raises(UserError, match=r"dev.tsv, line 2: .*'wam'; did you mean warm"):
        problem_of(tmp_path, dev_source_files=dev).prepare(tmp_path / "data", tmp_path)


@pytest.mark.slow
def test_from_training_to_an_exported_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, labels = tmp_path / "texts.txt", tmp_path / "labels.txt"
    texts.write_text("".join(f"{text}\n" for _, text in EXAMPLES))
    labels.write_text("".join(f"{label}\n" for label, _ in EXAMPLES))
    run = f"--output_dir={tmp_path}/run"
    small = "hidden_size=16,filter_size=16,num_heads=2,num_steps=1,dropout=0.0,word_dropout=0.0"
    assert (
        trainer.main(
            [
                "--problem=classify_files",
                "--hparams_set=ut_classify",
                f"--hparams={small},vocab_size=300,learning_rate=0.01,warmup_steps=10,train_steps=40,"
                # An epoch of one batch would cost more than its update.
                "batch_size=256",
                f"--source_files={texts}",
                f"--target_files={labels}",
                f"--data_dir={tmp_path}/data",
                run,
            ]
        )
        == 0
    )
    capsys.readouterr()
    assert eval_command.main([run]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert {name: metrics[name] for name in ("error", "error/cold", "error/warm")} == {
        "error": 0.0,
        "error/cold": 0.0,
        "error/warm": 0.0,
    }
    (tmp_path / "new.txt").write_text("a red one\nthe blue\n")
    answers = tmp_path / "answers"
    decode = [run, f"--decode_from_file={tmp_path}/new.txt", f"--decode_to_file={answers}"]
    assert decoder.main(decode) == 0
    assert answers.read_text() == "warm\ncold\n"
    export = [run, f"--export_dir={tmp_path}/exported", "--signatures=serving_default"]
    assert exporter.main([*export, "--nowarmup"]) == 0
    served = tf.saved_model.load(str(tmp_path / "exported" / "1")).signatures["serving_default"]
    answer = served(inputs=tf.constant(["red", "blue number"]))
    assert answer["outputs"].numpy().tolist() == [b"warm", b"cold"]
    assert (answer["probability"].numpy() > 0.5).all()
    _, first, second = ut_tf.inspect_run(
        ut_tf.Run.load(tmp_path / "run"), "a red one", examples=2, to_file=tmp_path / "think.html"
    )["examples"]
    assert {first["group"], second["group"]} == {"class cold", "class warm"}
    assert first["thoughts"][0]["correct"] and second["thoughts"][0]["correct"]
