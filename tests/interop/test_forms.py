"""Each form of tensor2tensor's networks that can be imported gives tensor2tensor's logits, losses
and decoded symbols; tests/golden/forms/README.md says how the references were made.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.interop.tensor2tensor import model_from_variables
from ut_tf.search.config import DecodeConfig
from ut_tf.search.strategies import decode
from ut_tf.symbols import END_ID

pytestmark = pytest.mark.usefixtures("eager")

FORMS = Path(__file__).resolve().parent.parent / "golden" / "forms"
NAMES = sorted(path.stem for path in FORMS.glob("*.npz"))
DECODED = sorted(path.stem for path in FORMS.glob("*_decoded.npz"))
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    # Without the best of beam4, which are the first of these.
    "beam4_all": {"beam_size": 4, "alpha": 0.6, "n_best": 4},
}
QUICK = {("transformer_decoded", "greedy")}
# Each of their two changes is in another one, or in tests/golden/ut_*.
BOTH_CHANGES = (
    *("act_multilayer", "act_mix_after", "act_concat", "act_sepconv"),
    *("gru_mix_both", "ut_concat_sinusoid"),
)
LARGEST_DIFFERENCE = 1e-4
# tensor2tensor leaves padding out of the transition, so that padding halts at other steps;
# one step of one of 27 positions costs 4e-4.
LARGEST_DIFFERENCE_OF_COSTS = 4e-3
NO_OUTPUT = -1e6


@functools.lru_cache(maxsize=len(DECODED))
def _reference(name: str) -> tuple[Any, dict[str, Any]]:
    """(our model with the reference's weights, the reference's arrays)."""
    with np.load(FORMS / f"{name}.npz") as file:
        arrays = dict(file)
    return model_from_variables(arrays, json.loads((FORMS / f"{name}.json").read_text())), arrays


def _features(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: arrays[name] for name in ("inputs", "targets") if name in arrays}


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.slow] * (one in BOTH_CHANGES)) for one in NAMES],
)
def test_logits_and_losses(name: str) -> None:
    model, arrays = _reference(name)
    logits = np.asarray(model(_features(arrays)))
    expected = arrays["logits"].reshape(logits.shape)
    assert np.ptp(expected) > 1.0  # Not all alike.
    np.testing.assert_allclose(logits, expected, rtol=0.0, atol=LARGEST_DIFFERENCE)
    if "loss/act_loss" in arrays:
        assert float(sum(model.losses)) == pytest.approx(
            float(arrays["loss/act_loss"]), abs=LARGEST_DIFFERENCE_OF_COSTS
        )


@pytest.mark.parametrize(
    ("name", "label", "options"),
    [
        pytest.param(name, label, options, marks=[pytest.mark.slow] * ((name, label) not in QUICK))
        for name in DECODED
        for label, options in SEARCHES.items()
    ],
)
def test_decoded_symbols(name: str, label: str, options: dict[str, Any]) -> None:
    model, arrays = _reference(name)
    # tensor2tensor counts padding as part of an input.
    longest = arrays["inputs"].shape[1] + 8
    config = DecodeConfig(**options, max_length=longest, wide_ends=True)
    ours = decode(model, {"inputs": tf.constant(arrays["inputs"])}, config)
    symbols, scores = np.asarray(ours.symbols), np.asarray(ours.scores)
    theirs = arrays[f"decoded/{label}"].reshape(*symbols.shape[:2], -1)
    their_scores = (
        arrays[f"scores/{label}"].reshape(len(symbols), -1) if label != "greedy" else None
    )
    for example, rank in np.ndindex(*symbols.shape[:2]):
        score = None if their_scores is None else their_scores[example, rank]
        if score is not None and score < NO_OUTPUT:
            continue  # A place that tensor2tensor leaves empty, and ut-tf fills with what was cut.
        assert _until_end(symbols[example, rank]) == _until_end(theirs[example, rank])
        if score is not None:
            assert scores[example, rank] == pytest.approx(score, abs=LARGEST_DIFFERENCE)


def _until_end(ids: Any) -> list[int]:
    """The symbols before the end symbol."""
    symbols = [int(symbol) for symbol in ids]
    return symbols[: symbols.index(END_ID)] if END_ID in symbols else symbols
