"""Models with a memory of its own for each puzzle, where they are used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from tests.bin.tiny_runs import save
from tests.close import assert_close
from tests.problems.own_files import test_puzzle_folder as folders
from tests.search.models import INPUTS, random_model
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec

ALIGNED = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
PUZZLES = {"memory_tokens": 2, "num_puzzles": 3}


def test_an_exported_call_takes_the_puzzles(tmp_path: Path) -> None:
    model = random_model(spec=ALIGNED, **PUZZLES)
    model.export(str(tmp_path), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path))
    for puzzles in ([0, 1, 2], [2, 2, 0]):
        features = {"inputs": tf.constant(INPUTS), "puzzles": tf.constant(puzzles)}
        assert_close(loaded.serve(features), model(features), 3e-5)
    assert float(tf.reduce_max(tf.abs(model(features) - model({"inputs": INPUTS})))) > 1e-2
    with pytest.raises(TypeError, match="puzzles"):
        loaded.serve({"inputs": tf.constant(INPUTS)})


def test_one_puzzle_for_all_needs_no_number(tmp_path: Path) -> None:
    model = random_model(spec=ALIGNED, **{**PUZZLES, "num_puzzles": 1})
    model.export(str(tmp_path), verbose=False)
    features = {"inputs": tf.constant(INPUTS)}
    loaded = tf.saved_model.load(str(tmp_path))
    assert_close(loaded.serve(features), model(features), 3e-5)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ut_tf.Run:
    """A trained run on a folder of puzzles with three identifiers."""
    description = {**folders.DESCRIPTION, "num_puzzle_identifiers": 3}
    monkeypatch.setattr(folders, "DESCRIPTION", description)
    folder = folders.write(tmp_path)
    for part in ("train", "test"):
        identifiers = (np.arange(20) % 3).astype(np.int32)
        np.save(folder / part / "all__puzzle_identifiers.npy", identifiers)
        assert json.loads((folder / part / "dataset.json").read_text()) == description
    run = ut_tf.Run.create(
        "puzzle_folder",
        "ut_aligned",
        "hidden_size=8,filter_size=8,num_heads=2,num_steps=2,memory_tokens=2,num_puzzles=3",
        problem_args={"folder": str(folder)},
        output_dir=tmp_path / "run",
        data_dir=tmp_path / "data",
        tmp_dir=tmp_path / "tmp",
    )
    save(run, (100,))
    return run


@pytest.mark.usefixtures("eager")
def test_examples_are_shown_with_the_memory_of_their_puzzle(run: ut_tf.Run) -> None:
    model: Any = ut_tf.load_model(run)
    model.encoder.memory.vectors.assign(tf.random.normal([3, 8], seed=1))
    from ut_tf.insights.thinker import Thinker

    thinker = Thinker(run, model, 100)
    table = run.make_problem().examples("test", run.data_dir)
    batch = {name: value.numpy() for name, value in table.batch(tf.range(6)).items()}
    answers = []
    for row in range(6):
        features = {name: value[row : row + 1] for name, value in batch.items()}
        given = thinker.given({name: value[row] for name, value in batch.items()})
        of_puzzle, of_first = (
            run.text_codec().decode(tf.argmax(model(one), -1, tf.int32)).numpy()[0].decode()
            for one in (features, {"inputs": features["inputs"]})
        )
        assert thinker.think(given)["answer"] == of_puzzle
        answers.append((of_puzzle, of_first))
    assert any(of_puzzle != of_first for of_puzzle, of_first in answers)


def test_what_reads_texts_says_that_they_name_no_puzzle(run: ut_tf.Run, tmp_path: Path) -> None:
    from ut_tf.serving.export import export_run

    for use in (
        lambda: ut_tf.Translator.from_run(run),
        lambda: export_run(run, tmp_path / "export"),
        lambda: ut_tf.inspect_run(run, "1 2 3 4"),
    ):
        with pytest.raises(UserError, match="a memory for each of 3 puzzles, and a text does not"):
            use()
    assert not (tmp_path / "export").exists()
