"""Aligned targets: an answer at every position of the inputs, from whole models through exit rules,
PonderNet, text and export.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import ut_tf
from tests.close import assert_close
from tests.search.models import VOCAB, random_model
from ut_tf.errors import UserError
from ut_tf.inference.answers import Answers
from ut_tf.models.convolutional.bytenet import ByteNet
from ut_tf.models.convolutional.convs2s import ConvS2S
from ut_tf.models.lstm.model import LSTMModel
from ut_tf.models.memn2n.model import MemN2N
from ut_tf.models.memory_transformer.model import MemTransformer
from ut_tf.models.neural_gpu.extended import ExtendedNeuralGPU
from ut_tf.models.neural_gpu.model import NeuralGPU
from ut_tf.models.transformer.model import Transformer
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.reasoning.sudoku import Sudoku
from ut_tf.search.config import DecodeConfig

ALIGNED = ProblemSpec("tokens", "aligned", VOCAB, 5)
INPUTS = np.array([[3, 4, 5, 6, 7, 8], [8, 2, 3, 0, 0, 0], [5, 5, 5, 4, 0, 0]], np.int32)
COUNTED = INPUTS > 0
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ut, halting": (UniversalTransformer, {"halting": "basic"}),
    "ut, start symbol": (UniversalTransformer, {"input_start_symbol": True, "norm": "pre"}),
    "transformer": (Transformer, {}),
    "mem_transformer": (MemTransformer, {"memory_size": 2, "input_start_symbol": True}),
    "lstm": (LSTMModel, {"lstm_direction": "both"}),
    "convs2s": (ConvS2S, {}),
    "bytenet": (ByteNet, {"source_stretch": 1.5}),
    "neural_gpu": (NeuralGPU, {"source_stretch": 1.5}),
    "extended_neural_gpu": (ExtendedNeuralGPU, {}),
}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        pytest.param(
            *case,
            id=name,
            marks=[pytest.mark.slow]
            * (name not in ("ut, halting", "ut, start symbol", "transformer", "convs2s")),
        )
        for name, case in MODELS.items()
    ],
)
def test_every_model_answers_at_every_position(kind: Any, changes: dict[str, Any]) -> None:
    # How far an answer changes depends on the weights.
    model = random_model(kind, spec=ALIGNED, first_seed=0, **changes)
    logits, details = model({"inputs": INPUTS}, return_details=True)
    assert logits.shape == (3, 6, 5) and details.decoder is None
    alone = model({"inputs": INPUTS[1:2, :3]})
    assert_close(logits[1:2, :3], alone, 1e-5)
    changed = INPUTS.copy()
    changed[0, 2] = 3
    # Another symbol changes its own answer, and those of no other example.
    difference = np.abs(model({"inputs": changed}) - logits).max(-1)
    assert difference[0, 2] > 0.1
    assert difference[1:].max() < 1e-6
    # A start symbol does not shift the answers: the symbol's own changes most.
    if "input_start_symbol" in changes:
        assert difference[0].argmax() == 2
    with pytest.raises(UserError, match="targets='aligned' writes no sequence"):
        model.generate({"inputs": INPUTS})


def test_what_has_no_symbols_to_answer_at_is_refused() -> None:
    facts = ProblemSpec("facts", "aligned", VOCAB, 5, max_words=3)
    with pytest.raises(UserError, match="answers at symbols of tokens, not of facts"):
        random_model(spec=facts)
    with pytest.raises(UserError, match="nothing to read"):
        random_model(spec=ProblemSpec("none", "aligned", 0, 5))
    with pytest.raises(UserError, match="answers questions on facts"):
        random_model(MemN2N, spec=ALIGNED)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 1])
def test_pondernet_lets_each_position_stop_for_itself(start: int) -> None:
    options = {"halting": "pondernet", "act_max_steps": 6, "input_start_symbol": bool(start)}
    # Whether positions differ at inference depends on the initial weights.
    model = random_model(spec=ALIGNED, first_seed=0, **options)
    features = {"inputs": INPUTS}
    scores, details = model(features, training=True, return_details=True)
    assert scores.shape == (3, 6, 5)
    shares = np.exp(np.asarray(details.encoder.log_shares))[:, :, start:]
    assert shares[:, 0].std(-1).max() > 1e-3
    expected = sum(
        share[..., None] * tf.nn.log_softmax(model.position_logits(states[:, start:]))
        for share, states in zip(shares, tf.unstack(details.encoder.step_states), strict=True)
    )
    assert_close(scores, expected, 1e-5)
    _, used = model(features, return_details=True)
    assert len(np.unique(used.encoder.ponder_times[:, start:][COUNTED])) > 1


def test_likelihood_is_the_sum_over_positions() -> None:
    model = random_model(spec=ALIGNED)
    answers = Answers(model, Sudoku(4).text_codec(Path()), DecodeConfig())
    targets = np.array([[2, 3, 4, 2, 3, 4], [3, 3, 4, 0, 0, 0], [2, 2, 0, 0, 0, 0]], np.int32)
    scores = answers.score({"inputs": INPUTS, "targets": targets}).numpy()
    each = tf.nn.log_softmax(model({"inputs": INPUTS})).numpy()
    for row in (0, 1):
        places = [each[row, place, symbol] for place, symbol in enumerate(targets[row]) if symbol]
        assert_close(scores[row], sum(places), 1e-4)
    # A target that is shorter than the inputs cannot be.
    assert scores[2] == -np.inf
    longer = np.pad(targets, [(0, 0), (0, 1)], constant_values=2)
    assert (answers.score({"inputs": INPUTS, "targets": longer}).numpy() == -np.inf).all()


@pytest.mark.usefixtures("eager")
def test_the_model_that_comes_with_the_package_solves_a_puzzle() -> None:
    solver = ut_tf.load("sudoku4")
    assert solver.answer("132. .231 2.13 314.") == "1324 4231 2413 3142"
