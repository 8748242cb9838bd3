"""The benchmarks, run small."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.babi.archive import write_archive
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.problem_spec import ProblemSpec
from ut_tf.problems.babi.simulator.tasks import simulate_lines
from ut_tf.tables.overlaps import EXCHANGES, SIMULATED
from ut_tf.tables.record import ResultRecord

pytestmark = pytest.mark.slow


@pytest.fixture
def benchmark(script: Callable[[str], Any]) -> Any:
    return script("train")


@pytest.mark.usefixtures("eager")
def test_command_prints_a_table_and_json(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "hidden_size=8,filter_size=8,num_heads=2,num_steps=2,batch_size=64"
    arguments = [
        *(f"--hparams={small}", "--seconds=0", "--rounds=1", "--warmup_steps=1"),
        *("--peak_repetitions=0", "--dtype_policies=float32"),
    ]
    arguments += ["--intra_op_threads=0", "--inter_op_threads=0"]
    assert benchmark.main([*arguments, f"--data_dir={tmp_path}", f"--tmp_dir={tmp_path}"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["float32"]["steps"] == 1 and last["float32"]["steps_per_second"] > 0
    assert isinstance(last["flags"], list) and not last["peak_gflop_per_second"]


def record(problem: str, arguments: dict[str, Any], **more: Any) -> ResultRecord:
    return ResultRecord(
        table="babi",
        row="UT",
        metric="error",
        value=0.0,
        problem=problem,
        problem_args=arguments,
        hparams_set="ut_babi",
        version="0.5.0",
        **more,
    )


def test_questions_are_known_by_exchange_or_stand_among_simulated_stories(
    script: Callable[[str], Any], tmp_path: Path
) -> None:
    # The archive's test is what the simulator draws first; its training is another story.
    lines = "\n".join(simulate_lines(17, 40)) + "\n"
    other = "1 The red square is below the pink triangle.\n" + (
        "2 Is the red square above the pink triangle?\tno\t1\n"
    )
    write_archive(
        tmp_path, {"en/qa17_x_train.txt": other * 20, "en/qa17_x_test.txt": lines + other}
    )
    simulated = {"simulated_tasks": [17], "simulated_questions": 40}
    records = [
        record("babi_qa_task17_1k", {}),
        record("babi_qa_task17_1k", simulated, data_version=1),
        record("babi_qa_task17_1k", simulated, data_version=2),
        record("babi_qa_task17_1k", {"exchange_words": True}, data_version=1),
        record("babi_sim_task17", {"train_questions": 100}, test_problem="babi_qa_task17_1k"),
        record("sudoku_4x4", {}),
    ]
    former, later, exchanged, *_ = found = script("overlap").overlaps(records, tmp_path)
    assert [one.what for one in found[:3]] == [SIMULATED, SIMULATED, EXCHANGES]
    assert former.known == {"test": {17: (40, 41)}, "validation": {17: (0, 2)}}
    # What is held out is left out of simulated stories of new data.
    assert later.known["test"] == {17: (0, 41)}
    assert exchanged.total == (1, 41)


_SPEC = ProblemSpec(
    inputs="tokens", targets="tokens", input_vocab_size=9, target_vocab_size=9, shared_vocab=True
)
_TENSOR2TENSOR = {"norm": "pre", "position": "tensor2tensor", "step_encoding": "learned"}


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
