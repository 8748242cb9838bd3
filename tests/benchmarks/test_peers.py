"""The networks of the peers, where their libraries are installed."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from tests.close import assert_close

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("norm", "position", "step_encoding"),
    [("post", "paper", "sinusoid"), ("pre", "tensor2tensor", "learned")],
)
def test_jax_and_pytorch_have_the_same_logits_and_loss(
    norm: str, position: str, step_encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    pytest.importorskip("optax")
    monkeypatch.syspath_prepend(str(PEERS))
    shared, ours, theirs = map(
        importlib.import_module,
        ("shared", "jax_universal_transformer", "pytorch_universal_transformer"),
    )
    network = shared.Network(16, 32, 4, 3, norm, 1e-6, 0.0, 0.0, 0.0, position, step_encoding)
    model = theirs.UniversalTransformer(network, 11).eval()
    parameters = ours.initial_parameters(network, 11)
    parameters["table"] = model.table.detach().numpy()
    for name in ("encoder", "decoder"):
        stack, own = getattr(model, name), parameters[name]
        kernels = [
            (own["self"], "project", stack.self_attention.query),
            (own["self"], "output", stack.self_attention.output),
            (own["inner"], "kernel", stack.transition.inner),
            (own["outer"], "kernel", stack.transition.outer),
        ]
        if name == "decoder":
            parts = ("query", "key_value", "output")
            memory = stack.memory_attention
            kernels += [(own["memory"], part, getattr(memory, part)) for part in parts]
        for place, part, layer in kernels:
            place[part] = layer.weight.detach().numpy().T
        for part in ("inner", "outer"):
            own[part]["bias"] = getattr(stack.transition, part).bias.detach().numpy()
        if step_encoding == "learned":
            own["steps"] = stack.step_table.detach().numpy()
    draws = np.random.default_rng(0)
    inputs, targets = draws.integers(1, 11, (3, 7)), draws.integers(1, 11, (3, 5))
    inputs[0, 5:], targets[1, 3:] = 0, 0

    no_dropout = ours.Dropout(jax.random.key(0))
    expected = model(torch.tensor(inputs), torch.tensor(targets))
    logits = ours.logits(parameters, network, inputs, targets, no_dropout)
    assert_close(np.asarray(logits), expected.detach().numpy(), 1e-5)
    loss = theirs.smoothed_loss(expected, torch.tensor(targets), 0.1)
    assert_close(float(ours.smoothed_loss(logits, targets, 0.1)), float(loss), 1e-5)
