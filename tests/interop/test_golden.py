"""The same weights must give what tensor2tensor 1.15.7 gave: logits, losses, and the same symbols
in every form of decoding.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ut_tf.interop.tensor2tensor import model_from_variables

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.npz"))
# Those whose graphs differ most; the others' are slow tests.
GRAPHS = ("act_basic",)
LARGEST_DIFFERENCE = 1e-4
pytestmark = pytest.mark.usefixtures("rewritten_graphs")


@pytest.fixture(scope="module", params=NAMES)
def reference(request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any]]:
    """(our model with the reference's weights, the reference's arrays)."""
    with np.load(GOLDEN / f"{request.param}.npz") as file:
        arrays = dict(file)
    hparams = json.loads((GOLDEN / f"{request.param}.json").read_text())
    return model_from_variables(arrays, hparams), arrays


def test_all_references_are_here() -> None:
    assert len(NAMES) == 7


def test_logits_and_losses(reference: tuple[Any, dict[str, Any]]) -> None:
    model, arrays = reference
    logits, details = model(
        {"inputs": arrays["inputs"], "targets": arrays["targets"]}, return_details=True
    )
    logits = np.asarray(logits)
    assert np.abs(logits - arrays["logits"]).max() < LARGEST_DIFFERENCE
    assert _cross_entropy(logits, arrays["targets"]) == pytest.approx(
        float(arrays["loss/training"]), abs=LARGEST_DIFFERENCE
    )
    if "loss/act_loss" in arrays:
        assert float(sum(model.losses)) == pytest.approx(
            float(arrays["loss/act_loss"]), abs=LARGEST_DIFFERENCE
        )
        assert (
            np.asarray(details.decoder.ponder_times).max() > 2
        )  # The reference reaches beyond the trap at step 2.
    else:
        assert not model.losses


@pytest.mark.slow
@pytest.mark.parametrize(
    "reference",
    [pytest.param(name, marks=() if name in GRAPHS else pytest.mark.slow) for name in NAMES],
    indirect=True,
)
def test_compiled_graph_gives_the_same(reference: tuple[Any, dict[str, Any]]) -> None:
    import tensorflow as tf

    model, arrays = reference
    ids = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(
        lambda inputs, targets: model({"inputs": inputs, "targets": targets}),
        input_signature=[ids, ids],
        autograph=False,
    )
    assert (
        np.abs(graph(arrays["inputs"], arrays["targets"]).numpy() - arrays["logits"]).max()
        < LARGEST_DIFFERENCE
    )


def _cross_entropy(logits: Any, targets: Any) -> float:
    """Mean over the symbols that are not padding, in nats."""
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    of_targets = np.take_along_axis(log_probabilities, targets[..., None], -1)[..., 0]
    return float(-of_targets[targets != 0].mean())
