"""The whole model: causality, losses, details, and use without any command."""

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
from tests.problems.own_files import test_questions as folders
from tests.search.models import INPUTS, random_model
from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec

SMALL = {"hidden_size": 16, "filter_size": 32, "num_heads": 2, "num_steps": 2}
SEQUENCES = ProblemSpec("tokens", "tokens", 12, 12, shared_vocab=True)


def ids(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(2, 12, shape).astype(np.int32)


def test_losses_hold_the_weighted_ponder_cost_of_encoder_and_decoder() -> None:
    model = UniversalTransformer(
        UniversalTransformerConfig(**SMALL, halting="basic", act_loss_weight=0.05), SEQUENCES
    )
    _, details = model({"inputs": ids(2, 5), "targets": ids(2, 4)}, return_details=True)
    expected = 0.05 * (details.encoder.ponder_cost() + details.decoder.ponder_cost())
    assert float(sum(model.losses)) == pytest.approx(float(expected), rel=1e-6)
    assert UniversalTransformer(UniversalTransformerConfig(**SMALL), SEQUENCES).losses == []


def test_attention_is_given_per_step_and_head() -> None:
    model = UniversalTransformer(UniversalTransformerConfig(**SMALL), SEQUENCES)
    _, details = model({"inputs": ids(3, 5), "targets": ids(3, 4)}, return_attention=True)
    assert details.encoder.attention_weights.shape == (2, 3, 2, 5, 5)
    assert details.decoder.attention_weights.shape == (2, 3, 2, 4, 4)
    assert details.decoder.memory_attention_weights.shape == (2, 3, 2, 4, 5)
    assert_close(tf.reduce_sum(details.decoder.memory_attention_weights, -1), 1.0, 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"attention": False, "transition": "sepconv"},
        {"mix_positions": 4},
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                {"attention": False, "transition": "sepconv2d", "halting": "basic"},
                {"mix_positions": 4, "halting": "basic"},
                {"mix_positions": 4, "recurrence_layers": 2},
            )
        ),
    ],
)
def test_blocks_without_attention_have_no_weights_of_it_and_see_other_positions(
    options: dict[str, Any],
) -> None:
    network = UniversalTransformerConfig(**SMALL, position="none", **options)
    model = UniversalTransformer(network, ProblemSpec("tokens", "aligned", 12, 12))
    inputs = ids(2, 4)
    answers, details = model({"inputs": inputs}, return_attention=True)
    assert details.encoder.attention_weights is None
    assert_close(model({"inputs": inputs}), answers, 1e-6)
    changed = inputs.copy()
    changed[:, 0] = 13 - changed[:, 0]
    assert np.abs(model({"inputs": changed}) - answers)[:, 1].max() > 1e-4


@pytest.mark.parametrize("inputs", ["tokens", "none"])
def test_parts_of_an_answering_encoder_are_refused_beside_a_decoder(inputs: str) -> None:
    spec = ProblemSpec(inputs, "tokens", 9, 9, shared_vocab=True)
    network = UniversalTransformerConfig(
        hidden_size=8,
        num_heads=2,
        q_head=True,
        position="none",
        attention=False,
        transition="sepconv",
    )
    with pytest.raises(UserError, match=r"attention=False is of an.*q_head=True is of an"):
        UniversalTransformer(network, spec)


def test_what_a_language_model_cannot_do_is_told_in_one_sentence() -> None:
    network = UniversalTransformerConfig(**SMALL, steps_per_position=0.5, position_separator=3)
    mistakes = r"^position_separator=3 is .*; steps_per_position=0.5 makes .*: set it to 0\.$"
    with pytest.raises(UserError, match=mistakes):
        UniversalTransformer(network, ProblemSpec("none", "tokens", 0, 12))


@pytest.mark.parametrize(
    ("padding_ponders", "start"), [pytest.param(False, True, marks=pytest.mark.slow), (True, False)]
)
def test_counted_positions_are_the_masks_of_the_details(padding_ponders: bool, start: bool) -> None:
    network = UniversalTransformerConfig(
        **SMALL, halting="basic", padding_ponders=padding_ponders, input_start_symbol=start
    )
    model = UniversalTransformer(network, SEQUENCES)
    features = {"inputs": ids(2, 5), "targets": ids(2, 4)}
    features["inputs"][0, 3:] = 0
    features["targets"][1, 2:] = 0
    _, details = model(features, return_details=True)
    for counted, part in zip(model.counted_positions(features), details, strict=True):
        np.testing.assert_array_equal(counted, part.mask)


ALIGNED = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
PUZZLES = {"memory_tokens": 2, "num_puzzles": 3}


@pytest.mark.slow
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


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ut_tf.Run:
    """A trained run on a folder of puzzles with three identifiers."""
    description = {**folders.DESCRIPTION, "num_puzzle_identifiers": 3}
    monkeypatch.setattr(folders, "DESCRIPTION", description)
    folder = folders.write_folder(tmp_path)
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


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_examples_are_shown_with_the_memory_of_their_puzzle(run: ut_tf.Run) -> None:
    model: Any = ut_tf.load_model(run)
    model.encoder.memory.vectors.assign(5.0 * tf.random.stateless_normal([3, 8], [1, 0]))
    from ut_tf.insights.thinker import Thinker

    thinker = Thinker(run, model, 100)
    table = run.make_problem().examples("test", run.data_dir)
    batch = {name: value.numpy() for name, value in table.batch(tf.range(4)).items()}
    answers = []
    for row in range(4):
        features = {name: value[row : row + 1] for name, value in batch.items()}
        given = thinker.given({name: value[row] for name, value in batch.items()})
        present = features["inputs"] != 0
        of_puzzle, of_first = (
            run.text_codec()
            .decode(tf.where(present, tf.argmax(model(one), -1, tf.int32), 0))
            .numpy()[0]
            .decode()
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
