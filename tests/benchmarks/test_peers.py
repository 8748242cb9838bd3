"""The peers of benchmarks/train.py: the library's network, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec

pytestmark = pytest.mark.slow

_SPEC = ProblemSpec(
    inputs="tokens", targets="tokens", input_vocab_size=9, target_vocab_size=9, shared_vocab=True
)
_TENSOR2TENSOR = {"norm": "pre", "position": "tensor2tensor", "step_encoding": "learned"}


@pytest.fixture
def train(script: Callable[[str], Any]) -> Any:
    return script("train")


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    small = "hidden_size=8,filter_size=8,num_heads=2,num_steps=2,batch_size=64"
    return [
        f"--hparams={small}",
        f"--data_dir={tmp_path}",
        f"--tmp_dir={tmp_path}",
        "--intra_op_threads=0",
        "--inter_op_threads=0",
        "--peak_repetitions=0",
        "--warmup_steps=1",
        "--seconds=0",
    ]


def _copy_weights(model: Any, network: Any, torch: Any) -> None:
    """Gives the peer the weights of a model of the library."""
    weights = {weight.path: weight.numpy() for weight in model.trainable_variables}

    def kernel(path: str) -> Any:
        return weights[path].T

    def attention(path: str, peer: Any) -> None:
        query, key, value = (kernel(f"{path}/{n}_kernel") for n in ("query", "key", "value"))
        joined = [query] if peer.key_value is not None else [query, key, value]
        assign(peer.query.weight, np.concatenate(joined))
        if peer.key_value is not None:
            assign(peer.key_value.weight, np.concatenate([key, value]))
        assign(peer.output.weight, kernel(f"{path}/output/kernel"))

    def assign(parameter: Any, value: Any) -> None:
        assert tuple(parameter.shape) == value.shape
        parameter.data = torch.from_numpy(np.array(value))

    assign(network.table, weights["shared_embedding/table"])
    for name in ("encoder", "decoder"):
        stack, block = getattr(network, name), f"{name}/block"
        attention(f"{block}/self_attention", stack.self_attention)
        norms = ["self_attention", "transition"]
        if name == "decoder":
            attention(f"{block}/memory_attention", stack.memory_attention)
            norms.insert(1, "memory_attention")
        for part in ("inner", "outer"):
            linear = getattr(stack.transition, part)
            assign(linear.weight, kernel(f"{block}/transition/{part}/kernel"))
            assign(linear.bias, weights[f"{block}/transition/{part}/bias"])
        pairs = [(norm, f"{block}/{n}_norm") for norm, n in zip(stack.norms, norms, strict=True)]
        if stack.final_norm is not None:
            pairs.append((stack.final_norm, f"{name}/final_norm"))
        for norm, path in pairs:
            assign(norm.weight, weights[f"{path}/scale"])
            assign(norm.bias, weights[f"{path}/bias"])
        if stack.step_table is not None:
            assign(stack.step_table, weights[f"{name}/coordinates/step_table"])


@pytest.mark.parametrize("changes", [{}, _TENSOR2TENSOR])
def test_peer_is_the_same_network(changes: dict[str, Any], script: Callable[[str], Any]) -> None:
    torch = pytest.importorskip("torch")
    pytorch = script("peers.pytorch_universal_transformer")
    processes = script("peers.processes")
    config = UniversalTransformerConfig(
        hidden_size=8, filter_size=12, num_heads=2, num_steps=3, **changes
    )
    model = UniversalTransformer(config, _SPEC)
    fields = {name: getattr(config, name) for name in processes.READ_FIELDS}
    network = pytorch.UniversalTransformer(pytorch.Network(**fields), 9).eval()
    assert sum(p.numel() for p in network.parameters()) == model.count_params()
    _copy_weights(model, network, torch)
    inputs = np.array([[3, 4, 5, 1], [6, 1, 0, 0]])
    targets = np.array([[5, 4, 1], [2, 1, 0]])
    expected = model({"inputs": tf.constant(inputs), "targets": tf.constant(targets)})
    with torch.no_grad():
        logits = network(torch.from_numpy(inputs), torch.from_numpy(targets))
        loss = pytorch.smoothed_loss(logits, torch.from_numpy(targets), 0.1)
    np.testing.assert_allclose(logits.numpy(), expected.numpy(), atol=1e-5)
    from ut_tf.metrics.losses import smoothed_cross_entropy

    each = smoothed_cross_entropy(expected, targets, 0.1).numpy()
    assert float(loss) == pytest.approx(each[targets != 0].mean(), rel=1e-5)


def test_peer_trains_beside_the_library(
    train: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    own = ["--peers=pytorch", "--dtype_policies=float32", "--rounds=1", "--peer_batches=1"]
    assert train.main([*arguments, *own]) == 0
    printed = train.json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["pytorch"]["steps"] == 1 and printed["ratio"] > 0


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--peers=jax"], "--peers=jax"),
        (["--peers=pytorch", "--dtype_policies=mixed_bfloat16"], "add float32"),
        (["--peers=pytorch", "--hparams=recurrence=gru"], "recurrence=basic"),
    ],
)
def test_what_peers_cannot_do_is_said(
    train: Any,
    arguments: list[str],
    flags: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train.main([*arguments, *flags]) == 1
    assert expected in capsys.readouterr().err


def test_operations_are_sorted_by_kind(script: Callable[[str], Any]) -> None:
    operations = script("operations")
    times = {
        "a/transition_1/Relu:_MklNativeFusedMatMul": 5.0,
        "gradients/b/MatMul_grad/MatMul:_MklBatchMatMulV2": 4.0,
        "gradients/block_1/transition_norm_1/IdentityN_grad/mul:Mul": 3.0,
        "b/self_attention_1/Select:Select": 2.0,
        "b/Softmax_grad/mul:Mul": 1.0,
    }
    kinds = operations.by_kind(times, 20.0)
    expected = {"matrix products": 9.0, "layer norms": 3.0, "dropout": 2.0, "softmax": 1.0}
    assert {kind: kinds[kind] for kind in expected} == expected
    assert kinds[operations.OUTSIDE] == 5.0 and sum(kinds.values()) == 20.0
