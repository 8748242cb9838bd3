"""Puzzles and pairs from the user's files: the forms of file, what is wrong with them, the splits,
and the commands from training to a board in the terminal.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.bin import eval as eval_command
from ut_tf.bin import show, trainer
from ut_tf.data.pipeline import eval_batches
from ut_tf.data.text.codec import Board
from ut_tf.errors import UserError
from ut_tf.problems.own_files.puzzle_folder import Part, PuzzleFolder
from ut_tf.problems.own_files.puzzles import AlignedFiles, PairsFiles
from ut_tf.problems.own_files.questions import Form, board_of, read_questions

FORMS = {
    "a.tsv": "1..2\t1342\t7\n.21.\t3214\t0\n",
    "a.csv": "source,question,answer,rating\nx,1..2,1342,7\ny,.21.,3214,0\n",
    "a.jsonl": '{"question": "1..2", "answer": "1342", "difficulty": 7}\n'
    '{"rating": "0", "answer": "3214", "question": ".21."}\n',
}
SYMBOLS = "1234"
BOARDS = ["".join(cells) for cells in itertools.product(SYMBOLS, repeat=4)]


def write(folder: Path, rows: list[tuple[str, ...]], name: str = "train.tsv") -> str:
    path = folder / name
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def blanked(answers: list[str]) -> list[tuple[str, ...]]:
    """Questions that hide one cell, answers, and the number of that cell as a rating."""
    return [
        (f"{text[: n % 4]}.{text[n % 4 + 1 :]}", text, str(n % 4)) for n, text in enumerate(answers)
    ]


def questions(problem: Any, split: str, data: Path, **draws: int) -> list[tuple[str, str]]:
    codec = problem.text_codec(problem.vocab_files(data)[0].parent)
    rows = list(problem.dataset(split, data, **draws).as_numpy_iterator())
    ids = ([row[name].tolist() for row in rows] for name in ("inputs", "targets"))
    texts = (codec.decode(tf.ragged.constant(side).to_tensor()).numpy() for side in ids)
    return [(asked.decode(), answer.decode()) for asked, answer in zip(*texts, strict=True)]


@pytest.mark.parametrize("name", FORMS)
def test_each_form_of_file_gives_the_same_questions(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FORMS[name], encoding="utf-8-sig")
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(FORMS[name].encode()))
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        rows = list(read_questions((path,), Form()))
        assert [row[:3] for row in rows] == [("1..2", "1342", "7"), (".21.", "3214", "0")]
        assert rows[0].place == f"{path}, line {2 if '.csv' in path.name else 1}"


def test_boards_have_the_boxes_of_sudoku() -> None:
    assert board_of("") is None
    assert board_of("9x9") == Board(9, 9, 3, 3)
    assert board_of("6x6") == Board(6, 6, 2, 3)
    assert board_of("4x4") == Board(4, 4, 2, 2)
    assert board_of("5x5") == Board(5, 5)
    assert board_of("3x7") == Board(3, 7)
    for text in ("9", "9x", "x", "0x4", "9x9x9", "1000x1000", "-4x4"):
        with pytest.raises(UserError, match="`board`="):
            board_of(text)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"12.4\t1234\n12.4 1234\n", "line 2: .* has 0 tabs"),
        ("a.tsv", b"12.4\t1234\n12.4\t123\n", "line 2: the answer has 3 characters: expected 4"),
        ("a.tsv", b"12.4\t1234\n\t1234\n", "line 2 has no question"),
        ("a.tsv", b"12.4\t1234\n1\xff34\t1234\n", "line 2: byte .* is not UTF-8"),
        ("a.tsv", b"", "has no rows"),
        ("a.csv", b"question,solution\n12.4,1234\n", "line 1: the columns are .*'answer'"),
        ("a.csv", b"question,answer\n12.4,1234,9\n", "line 2: it has 3 columns"),
        ("a.csv", b'question,answer\n"1\n.4",1234\n', "several lines|has 4 characters"),
        ("a.jsonl", b'{"question": "12.4"}\n', "line 1: .*expected an object"),
        ("a.jsonl", b'{"question": 12, "answer": "12"}\n', "line 1: the question is 12"),
        ("a.jsonl", b'{"question": "\\ud800", "answer": "1"}\n', "line 1: the question is"),
        (
            "a.jsonl",
            b'{"answer": "1", "question": "1", "answer": "2"}\n',
            'line 1: the key "answer" stands twice',
        ),
        ("a.jsonl", b"[" * 100_000, "line 1: .*expected an object"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        list(read_questions((tmp_path / name,), Form(board=Board(2, 2))))


def test_a_character_that_training_lacks_is_told_with_its_line(tmp_path: Path) -> None:
    train = write(tmp_path, blanked(BOARDS[:20]))
    dev = write(tmp_path, [("1.11", "1111"), ("1.1x", "1111")], "dev.tsv")
    with pytest.raises(UserError, match=r"dev\.tsv, line 2: the question has the character 'x'"):
        AlignedFiles(train, dev).prepare(tmp_path / "data", tmp_path)


@pytest.mark.parametrize("kind", [pytest.param(AlignedFiles, marks=pytest.mark.slow), PairsFiles])
def test_a_tenth_is_held_out_and_no_question_is_trained_on(kind: Any, tmp_path: Path) -> None:
    rows = blanked(BOARDS)
    problem = kind(write(tmp_path, rows + rows[:30]))
    problem.prepare(tmp_path / "data", tmp_path)
    train, validation = (
        questions(problem, split, tmp_path / "data") for split in ("train", "validation")
    )
    assert not {question for question, _ in train} & {question for question, _ in validation}
    assert sorted(train + validation) == sorted(row[:2] for row in rows + rows[:30])
    distinct = len({row[0] for row in rows})
    assert len({question for question, _ in validation}) == -(-distinct // 10)
    again = kind(str(tmp_path / "train.tsv"))
    again.prepare(tmp_path / "other", tmp_path)
    assert questions(again, "validation", tmp_path / "other") == validation
    assert questions(again, "train", tmp_path / "other", seed=1) != train
    assert problem.judged_split == "validation"


def test_files_for_validation_and_test_are_judged_as_they_are(tmp_path: Path) -> None:
    rows = blanked(BOARDS[:40])
    files = [
        write(tmp_path, part, f"{n}.tsv") for n, part in enumerate([rows, rows[:3], rows[3:5]])
    ]
    problem = AlignedFiles(*files, board="2x2")
    problem.prepare(tmp_path / "data", tmp_path)
    test = list(problem.dataset("test", tmp_path / "data").as_numpy_iterator())
    assert [row["rating"] for row in test] == [rating.encode() for *_, rating in rows[3:5]]
    assert questions(problem, "validation", tmp_path / "data")[0] == (".1 11", "11 11")
    assert problem.judged_split == "test"
    Path(files[0]).write_text("1.\t12\n")
    with pytest.raises(UserError, match="has changed"):
        problem.prepare(tmp_path / "data", tmp_path)


def test_what_is_typed_becomes_the_ids_of_training(tmp_path: Path) -> None:
    problem = AlignedFiles(write(tmp_path, blanked(BOARDS)), board="2x2")
    problem.prepare(tmp_path / "data", tmp_path)
    codec = problem.text_codec(problem.vocab_files(tmp_path / "data")[0].parent)
    for text in ("1.23", "1. 23", " 1.23 "):
        np.testing.assert_array_equal(codec.encode(tf.constant([text]))["inputs"], [[3, 2, 4, 5]])
    told = [error.decode() for error in codec.errors(tf.constant(["1.23", "1.2", "1.2x"])).numpy()]
    assert not told[0] and "expected 4" in told[1] and "'x'" in told[2]


TINY = "hidden_size=16,filter_size=16,num_heads=2,num_steps=2,batch_size=256,train_steps=6"


def train(problem: str, folder: Path, *more: str) -> str:
    run = f"--output_dir={folder}/run"
    flags = [f"--problem={problem}", f"--data_dir={folder}/data", run, *more]
    assert trainer.main([*flags, f"--source_files={folder}/train.tsv"]) == 0
    return run


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_from_a_file_to_a_board_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, blanked(BOARDS))
    board = "--problem_args=board=2x2"
    run = train("aligned_files", tmp_path, "--hparams_set=ut_aligned", f"--hparams={TINY}", board)
    capsys.readouterr()
    assert eval_command.main([run]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert 0 <= metrics["seq_accuracy"] <= 1
    assert {"seq_accuracy/0", "seq_accuracy/3"} <= {*metrics}
    assert show.main([run, "--input=1.23"]) == 0
    shown = capsys.readouterr().out
    assert "given" in shown and "1 ." in shown and "2 3" in shown


# Ten groups of two puzzles with one example each, of a vocabulary of 6: 0 pads, 1 is a blank.
INPUTS = np.random.default_rng(0).integers(1, 6, [20, 4]).astype(np.int32)
INPUTS[:, 3] = 0
LABELS = np.where(INPUTS > 0, np.maximum(INPUTS, 2), 0).astype(np.int32)
DESCRIPTION = {
    "pad_id": 0,
    "ignore_label_id": 0,
    "blank_identifier_id": 0,
    "vocab_size": 6,
    "seq_len": 4,
    "num_puzzle_identifiers": 1,
    "total_groups": 10,
    "mean_puzzle_examples": 1.0,
    "total_puzzles": 20,
    "sets": ["all"],
}


def write_folder(folder: Path) -> Path:
    for part in ("train", "test"):
        path = folder / "puzzles" / part
        path.mkdir(parents=True)
        (path / "dataset.json").write_text(json.dumps(DESCRIPTION))
        arrays = {
            "inputs": INPUTS,
            "labels": LABELS,
            "puzzle_identifiers": np.zeros(20, np.int32),
            "puzzle_indices": np.arange(21, dtype=np.int32),
            "group_indices": np.arange(0, 21, 2, dtype=np.int32),
        }
        for name, array in arrays.items():
            np.save(path / f"all__{name}.npy", array)
    return folder / "puzzles"


def rows(problem: PuzzleFolder, split: str, **draws: int) -> Any:
    table = problem.examples(split, Path(), **draws)
    return {
        name: value.numpy() for name, value in table.batch(tf.range(len(table.lengths))).items()
    }


def test_examples_are_the_arrays_mapped_from_their_files(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    part = Part.read(folder / "train")
    assert isinstance(part.inputs, np.memmap) and isinstance(part.labels, np.memmap)
    problem = PuzzleFolder(str(folder), board="2x2")
    problem.prepare(tmp_path, tmp_path)
    test = rows(problem, "test")
    np.testing.assert_array_equal(test["inputs"], np.where(INPUTS > 0, INPUTS + 2, 0))
    np.testing.assert_array_equal(test["targets"], np.where(LABELS > 0, LABELS + 2, 0))
    spec = problem.spec(tmp_path)
    assert (spec.targets, spec.input_vocab_size, spec.target_vocab_size) == ("aligned", 8, 8)


def test_padding_is_kept_and_puzzles_have_their_identifiers(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    identifiers = np.arange(20) % 3
    for part in ("train", "test"):
        _described(num_puzzle_identifiers=3)(folder / part)
        _saved("puzzle_identifiers", identifiers)(folder / part)
    # The first puzzle has two examples.
    _saved("puzzle_indices", np.delete(np.arange(22), 1)[:20])(folder / "test")
    _saved("puzzle_identifiers", identifiers[:19])(folder / "test")
    _saved("group_indices", np.array([0, 19]))(folder / "test")
    problem = PuzzleFolder(str(folder), keep_padding=True)
    given = rows(problem, "test")
    np.testing.assert_array_equal(given["puzzles"], [0, *identifiers[:19]])
    np.testing.assert_array_equal(given["inputs"], INPUTS + 2)
    # Positions that no example answers stay in the batch: inputs and targets have one size.
    sets = problem.evaluation_sets()
    batch = next(iter(eval_batches(problem, sets[0], tmp_path, batch_examples=4)))
    assert batch["inputs"].shape == batch["targets"].shape == (4, 4)
    train = rows(problem, "train", seed=1)
    places = [int(np.flatnonzero((row == INPUTS + 2).all(1))[0]) for row in train["inputs"]]
    np.testing.assert_array_equal(train["puzzles"], identifiers[places])


def test_a_group_is_trained_on_or_held_out(tmp_path: Path) -> None:
    part = Part.read(write_folder(tmp_path) / "train")
    train, validation = part.training_and_held_out()
    assert len(validation) == 1 and validation[0] % 2 == 0
    assert {*range(20)} - {*train.tolist()} == {int(validation[0]), int(validation[0]) + 1}
    again = Part.read(tmp_path / "puzzles" / "train").training_and_held_out()
    np.testing.assert_array_equal(again[1], validation)
    problem = PuzzleFolder(str(tmp_path / "puzzles"))
    one, same, other = (rows(problem, "train", seed=1, epoch=n)["inputs"] for n in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def _saved(name: str, array: Any) -> Callable[[Path], object]:
    return lambda part: np.save(part / f"all__{name}.npy", array, allow_pickle=True)


def _described(**values: Any) -> Callable[[Path], object]:
    content = json.dumps({**DESCRIPTION, **values})
    return lambda part: (part / "dataset.json").write_text(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda part: (part / "dataset.json").unlink(), "dataset.json cannot be read"),
        (lambda part: (part / "dataset.json").write_text("[" * 100_000), "dataset.json cannot"),
        (lambda part: (part / "dataset.json").write_text("[]"), "'pad_id' is None"),
        (_described(vocab_size="6"), "'vocab_size' is 6"),
        (_described(vocab_size=4), "all__inputs.npy, example .*: the id [45] is none"),
        (_described(seq_len=5), "all__inputs.npy has the shape"),
        (_described(sets=["other"]), "'sets'"),
        (lambda part: (part / "all__labels.npy").unlink(), "all__labels.npy cannot be read"),
        (lambda part: (part / "all__labels.npy").write_bytes(b"x"), "all__labels.npy cannot"),
        (_saved("inputs", np.array([{}], object)), "all__inputs.npy cannot be read"),
        (_saved("inputs", INPUTS.astype(float)), "all__inputs.npy holds float64"),
        (_saved("inputs", np.int32(3)), "all__inputs.npy has the shape"),
        (_saved("labels", LABELS[:3]), "all__labels.npy has the shape"),
        (_saved("labels", LABELS - 1), "all__labels.npy, example .*: the id -1"),
        (_saved("puzzle_indices", np.arange(20)), "all__puzzle_indices.npy does not divide"),
        (_saved("puzzle_indices", np.zeros(21, int)), "all__puzzle_indices.npy does not"),
        (_saved("group_indices", np.arange(5)), "all__group_indices.npy does not divide"),
        (_saved("puzzle_identifiers", np.zeros(3, int)), "all__puzzle_identifiers.npy has the"),
        (_saved("puzzle_identifiers", np.ones(20, int)), "the identifier 1 is none of"),
    ],
)
def test_damaged_folders_are_refused(
    damage: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path)
    damage(folder / "train")
    with pytest.raises(UserError, match=message):
        PuzzleFolder(str(folder)).prepare(tmp_path, tmp_path)


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    with pytest.raises(UserError, match="`board`=3x3 has 9 cells: expected 'seq_len', 4"):
        PuzzleFolder(str(folder), board="3x3").prepare(tmp_path, tmp_path)
    (tmp_path / "p.csv").write_text("question,answer\n12,12\n")
    with pytest.raises(UserError, match=r"p.csv is a file: .*aligned_files reads .*CSV"):
        PuzzleFolder(str(tmp_path / "p.csv")).prepare(tmp_path, tmp_path)
    with pytest.raises(UserError, match="name it with `folder`"):
        PuzzleFolder().prepare(tmp_path, tmp_path)
    _described(vocab_size=9)(folder / "test")
    with pytest.raises(UserError, match="6 and 4 in train, 9 and 4 in test"):
        PuzzleFolder(str(folder)).prepare(tmp_path, tmp_path)
