"""Data folders of HRM and TRM: arrays by hand, mapped from their files, and damaged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.data.pipeline import eval_batches
from ut_tf.errors import UserError
from ut_tf.problems.own_files.puzzle_folder import Part, PuzzleFolder

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


def write(folder: Path) -> Path:
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
    folder = write(tmp_path)
    part = Part.read(folder / "train")
    assert isinstance(part.inputs, np.memmap) and isinstance(part.labels, np.memmap)
    problem = PuzzleFolder(str(folder), board="2x2")
    problem.prepare(tmp_path, tmp_path)
    test = rows(problem, "test")
    np.testing.assert_array_equal(test["inputs"], np.where(INPUTS > 0, INPUTS + 2, 0))
    np.testing.assert_array_equal(test["targets"], np.where(LABELS > 0, LABELS + 2, 0))
    spec = problem.spec(tmp_path)
    assert (spec.targets, spec.input_vocab_size, spec.target_vocab_size) == ("aligned", 8, 8)


def test_their_padding_is_a_symbol_where_the_label_counts(tmp_path: Path) -> None:
    folder = write(tmp_path)
    labels = LABELS.copy()
    labels[0] = [0, 2, 0, 3]
    np.save(folder / "test" / "all__labels.npy", labels)
    first = {name: value[0] for name, value in rows(PuzzleFolder(str(folder)), "test").items()}
    np.testing.assert_array_equal(first["targets"], [0, 4, 0, 5])
    np.testing.assert_array_equal(first["inputs"], INPUTS[0] + 2)


def test_padding_is_kept_and_puzzles_have_their_identifiers(tmp_path: Path) -> None:
    folder = write(tmp_path)
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
    part = Part.read(write(tmp_path) / "train")
    train, validation = part.training_and_held_out()
    assert len(validation) == 1 and validation[0] % 2 == 0
    assert {*range(20)} - {*train.tolist()} == {int(validation[0]), int(validation[0]) + 1}
    again = Part.read(tmp_path / "puzzles" / "train").training_and_held_out()
    np.testing.assert_array_equal(again[1], validation)
    problem = PuzzleFolder(str(tmp_path / "puzzles"))
    one, same, other = (rows(problem, "train", seed=1, epoch=n)["inputs"] for n in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_text_has_their_own_numbers(tmp_path: Path) -> None:
    problem = PuzzleFolder(str(write(tmp_path)))
    codec = problem.text_codec(problem.vocab_files(tmp_path)[0].parent)
    ids = codec.encode(tf.constant(["1 5 2 0"]))["inputs"]
    np.testing.assert_array_equal(ids, [[3, 7, 4, 2]])
    assert codec.decode(ids).numpy().tolist() == [b"1 5 2 0"]
    told = codec.errors(tf.constant(["1 5 2 0", "1 5 2", "1 5 2 6", "1 5 2 x"])).numpy()
    assert [bool(error) for error in told] == [False, True, True, True]


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
    folder = write(tmp_path)
    damage(folder / "train")
    with pytest.raises(UserError, match=message):
        PuzzleFolder(str(folder)).prepare(tmp_path, tmp_path)


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
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
