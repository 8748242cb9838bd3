"""The models that come with ut-tf answer as their cards say, and are small."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ut_tf
from ut_tf.errors import UserError
from ut_tf.evaluation.transfer import measure_transfer
from ut_tf.run import Run
from ut_tf.sharing.places import model_folder, shipped_models

pytestmark = pytest.mark.usefixtures("eager")

MOST_BYTES = 2_000_000
STORY = """Anna went to the cellar.
Boris moved to the studio.
Anna took the coin.
Clara walked to the garage.
Boris grabbed the lamp.
Anna moved to the attic."""


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_is_small_and_has_a_card_with_a_score(name: str) -> None:
    files = [path for path in shipped_models()[name].rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    card = (shipped_models()[name] / "README.md").read_text(encoding="utf-8")
    assert "Measured by ut-eval" in card and 'license: "apache-2.0"' in card
    assert "/tmp" not in card and "/home" not in card


def test_a_card_names_what_stops_the_positions() -> None:
    cards = {name: (shipped_models()[name] / "README.md").read_text() for name in shipped_models()}
    assert "Exits: `eval_exit=confidence`, `eval_exit_threshold=0.01`" in cards["sudoku6"]
    assert "Halting: `act_max_steps=" in cards["babi"] and "Exits" not in cards["babi"]


def test_babi_answers_new_stories(tmp_path: Path) -> None:
    run = Run.load(model_folder("babi"), data_dir=tmp_path, tmp_dir=tmp_path)
    arguments = {"train_questions": 40, "test_questions": 40, "seed": 7}
    assert measure_transfer(run, "babi_sim", arguments).metrics["error"] < 5
    babi = ut_tf.load("babi")
    assert babi.answer(STORY, "Where is the coin?") == "attic"
    assert re.fullmatch(
        r"LoadedModel\(babi_sim, \w+, [\d,]+ parameters; \.answer\(story, question\)\)", repr(babi)
    )


@pytest.mark.slow
def test_digits_are_reversed_at_twice_the_training_length() -> None:
    digits = "".join(map(str, np.random.default_rng(0).integers(0, 10, 80)))
    greedy = ut_tf.DecodeConfig(beam_size=1)
    assert ut_tf.load("reverse", greedy).answer(digits) == digits[::-1]


def test_a_folder_without_a_model_does_not_hide_a_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "babi").mkdir()
    monkeypatch.chdir(tmp_path)
    assert model_folder("babi") == shipped_models()["babi"]
    (tmp_path / "babi" / "checkpoints").mkdir()
    with pytest.raises(UserError, match="is a run directory"):
        model_folder("babi")
