"""benchmarks/train.py: its count of operations against those in the graph of a training step, and
the command itself.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.models.universal_transformer.model import UniversalTransformer
from ut_tf.models.universal_transformer.step import RecurrentStep
from ut_tf.problem_spec import ProblemSpec

pytestmark = pytest.mark.slow

_NETWORK = UniversalTransformerConfig(
    hidden_size=8, filter_size=12, num_heads=2, num_steps=2, norm="pre"
)
_TRANSLATION = ProblemSpec(
    inputs="tokens", targets="tokens", input_vocab_size=7, target_vocab_size=7, shared_vocab=True
)
_LANGUAGE_MODEL = dataclasses.replace(_TRANSLATION, inputs="none")
_CLASSIFIER = dataclasses.replace(
    _TRANSLATION, targets="class", target_vocab_size=5, shared_vocab=False
)


@pytest.fixture
def benchmark(script: Callable[[str], Any]) -> Any:
    return script("train")


def _graph_flop(model: Any, features: dict[str, Any]) -> int:
    """Returns the operations of all matrix products in the graph of a forward and backward pass."""

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(features, training=True)))
        return tape.gradient(loss, [weight.value for weight in model.trainable_variables])

    total = 0
    for operation in (
        tf.function(gradients, autograph=False).get_concrete_function().graph.get_operations()
    ):
        if operation.type in ("MatMul", "BatchMatMul", "BatchMatMulV2"):
            transposed = operation.get_attr(
                "transpose_a" if operation.type == "MatMul" else "adj_x"
            )
            inner = operation.inputs[0].shape[-2 if transposed else -1]
            total += 2 * operation.outputs[0].shape.num_elements() * inner
    return total


@pytest.mark.parametrize("spec", [_TRANSLATION, _CLASSIFIER, _LANGUAGE_MODEL])
def test_counts_what_the_graph_computes(
    benchmark: Any,
    spec: ProblemSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The operations of steps that share a function would be counted once.
    monkeypatch.setattr(RecurrentStep, "steps_are_alike", False)
    batch, length, target_length = 5, 6, 4
    features = {"inputs": tf.ones([batch, length], tf.int32)} if spec.inputs == "tokens" else {}
    if spec.targets == "tokens":
        features["targets"] = tf.ones([batch, target_length], tf.int32)
    sizes = length if "inputs" in features else 0, target_length if "targets" in features else 0
    expected = _graph_flop(UniversalTransformer(_NETWORK, spec), features)
    assert benchmark.training_flop(_NETWORK, spec, batch, *sizes) == expected


@pytest.mark.usefixtures("eagerly")
def test_command_prints_a_table_and_json(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "hidden_size=8,filter_size=8,num_heads=2,num_steps=2,batch_size=64"
    arguments = [
        f"--hparams={small}",
        "--seconds=0",
        "--rounds=1",
        "--warmup_steps=1",
        "--peak_repetitions=0",
        "--dtype_policies=float32",
    ]
    arguments += ["--intra_op_threads=0", "--inter_op_threads=0"]
    assert benchmark.main([*arguments, f"--data_dir={tmp_path}", f"--tmp_dir={tmp_path}"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["float32"]["steps"] == 1 and last["float32"]["steps_per_second"] > 0
    assert isinstance(last["flags"], list) and not last["peak_gflop_per_second"]


@pytest.mark.parametrize(
    ("hparams", "remedy"),
    [("halting=basic", "halting=none"), ("recurrence=gru", "recurrence=basic")],
)
def test_operations_that_cannot_be_counted_are_refused(
    benchmark: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    hparams: str,
    remedy: str,
) -> None:
    # TensorFlow is already running here, with threads of its own choice.
    monkeypatch.setattr(benchmark, "set_threads", lambda *_: None)
    assert benchmark.main([f"--hparams={hparams}", "--dtype_policies=float32"]) == 1
    assert remedy in capsys.readouterr().err
