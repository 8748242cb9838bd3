"""One update: normalisation over the global batch, replicas, accumulation, precision."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.close import assert_close
from tests.eager import eager_functions
from tests.training.toy import mirrored, run_steps, toy_run
from ut_tf.errors import marked_in
from ut_tf.factories import make_hparams
from ut_tf.metrics import losses
from ut_tf.problem_spec import ProblemSpec
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import Optimizer
from ut_tf.training.plan import BatchShape, RandomTraining
from ut_tf.training.step import TrainingStep, _whole_boards

# One bucket, so that the same examples share a global batch whatever the number of replicas.
SHARED: dict[str, Any] = {
    "batch_unit": "examples",
    "min_length_bucket": 8,
    "max_length": 8,
    "dropout": 0.0,
    "warmup_steps": 0,
}


def relative_difference(one: list[float], other: list[float]) -> float:
    return float(np.max(np.abs(np.array(one) - np.array(other)) / np.abs(np.array(one))))


@pytest.mark.parametrize(
    ("problem", "replicas", "optimizer"),
    [
        ("toy_copy", 2, "adam"),
        pytest.param("toy_class", 2, "adam", marks=pytest.mark.slow),
        pytest.param("toy_copy", 2, "muon", marks=pytest.mark.slow),
    ],
)
def test_replicas_train_as_one_device_with_the_same_global_batch(
    tmp_path: Path, problem: str, replicas: int, optimizer: str
) -> None:
    changes = {**SHARED, "halting": "basic", "act_loss_weight": 0.1, "clip_norm": 0.5}
    if optimizer == "muon":  # The toy model has no kernel that Muon is for.
        changes |= {"optimizer": optimizer, "model": "universal_transformer"}
        changes |= {"attention_dropout": 0.0, "relu_dropout": 0.0}
    one, weights = run_steps(toy_run(tmp_path, problem, batch_size=16, **changes), 3)
    many, mirrored_weights = run_steps(
        toy_run(tmp_path, problem, batch_size=16 // replicas, **changes), 3, mirrored(replicas)
    )
    assert (
        relative_difference([report.loss for report in one], [report.loss for report in many])
        < 1e-4
    )
    assert [report.tokens for report in one] == [report.tokens for report in many]
    assert [report.ponder_histogram for report in one] == [
        report.ponder_histogram for report in many
    ]
    for weight, other in zip(weights, mirrored_weights, strict=True):
        assert_close(weight, other, 1e-4)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_accumulated_small_batches_are_one_large_batch(tmp_path: Path, replicas: int) -> None:
    # 120 examples an epoch: no accumulation group ends in the middle of one.
    changes = {**SHARED, "halting": "basic", "act_loss_weight": 0.1}
    strategy = mirrored(replicas) if replicas > 1 else None
    large, weights = run_steps(toy_run(tmp_path, batch_size=12 // replicas, **changes), 3, strategy)
    small, others = run_steps(
        toy_run(tmp_path, batch_size=4 // replicas, accumulate_steps=3, **changes), 3, strategy
    )
    assert (
        relative_difference([report.loss for report in large], [report.loss for report in small])
        < 1e-5
    )
    assert [report.tokens for report in large] == [report.tokens for report in small]
    for weight, other in zip(weights, others, strict=True):
        assert_close(weight, other, 1e-5)


def test_the_loss_is_the_mean_over_tokens_plus_the_ponder_cost(tmp_path: Path) -> None:
    run = toy_run(tmp_path, halting="basic", act_loss_weight=0.1, dropout=0.0)
    keras.utils.set_random_seed(1)
    model = run.make_model()
    features = {
        "inputs": tf.constant([[2, 3, 1, 0], [4, 1, 0, 0], [5, 5, 5, 5]]),
        "targets": tf.constant([[2, 3, 1, 0], [4, 1, 0, 0], [5, 5, 5, 5]]),
        "weight": tf.constant([1.0, 1.0, 0.0]),
    }
    logits, details = model(features, return_details=True)
    each = losses.smoothed_cross_entropy(logits, features["targets"], 0.1).numpy()
    cross_entropy = (each[0, :3].sum() + each[1, :2].sum()) / 5
    remainders = details.encoder.remainders.numpy()
    ponder_cost = 2.0 + (remainders[0, :3].sum() + remainders[1, :2].sum()) / 5
    specs = {
        name: tf.TensorSpec([None] * len(value.shape), value.dtype)
        for name, value in features.items()
    }
    optimizer = Optimizer(model.trainable_variables, run.hparams.training, 16)
    step = TrainingStep(
        model, optimizer, run.hparams, Workers.of(tf.distribute.get_strategy()), specs
    )
    (report,) = step.read([step.update([features])[0]])
    assert report.cross_entropy == pytest.approx(cross_entropy, rel=1e-5)
    assert report.loss == pytest.approx(cross_entropy + 0.1 * ponder_cost, rel=1e-5)
    assert report.tokens == 5
    assert report.ponder_time == 2.0
    assert step._features(features)["update"].numpy().tolist() == [0, 2], "seed, next update"


def test_positions_are_counted_without_computing_the_network(tmp_path: Path) -> None:
    run = toy_run(tmp_path, model="universal_transformer", halting="basic", act_max_steps=4)
    model = run.make_model()
    optimizer = Optimizer(model.trainable_variables, run.hparams.training, 16)
    symbols = tf.TensorSpec([None, None], tf.int32)
    specs = {"inputs": symbols, "targets": symbols, "weight": tf.TensorSpec([None])}
    step = TrainingStep(
        model, optimizer, run.hparams, Workers.of(tf.distribute.get_strategy()), specs
    )
    features = {
        "inputs": tf.constant([[2, 3, 1], [4, 1, 0]]),
        "targets": tf.constant([[2, 3, 4, 1], [4, 1, 0, 0]]),
        "weight": tf.constant([1.0, 1.0]),
    }
    _, details = model(features, return_details=True)
    _, positions, _ = losses.ponder_sums(details, features["weight"], 4)
    counts = step._count(features, ())
    assert counts["targets"].numpy() == 6.0
    assert counts["positions"].numpy().tolist() == positions.numpy().tolist()
    operations = {
        operation.type for operation in step._count.get_concrete_function().graph.get_operations()
    }
    assert not operations & {"While", "StatelessWhile", "MatMul", "BatchMatMulV2", "Einsum"}


def test_new_lengths_do_not_trace_again(tmp_path: Path) -> None:
    run = toy_run(tmp_path)
    model = run.make_model()
    optimizer = Optimizer(model.trainable_variables, run.hparams.training, 16)
    symbols = tf.TensorSpec([None, None], tf.int32)
    specs = {"inputs": symbols, "targets": symbols, "weight": tf.TensorSpec([None])}
    step = TrainingStep(
        model, optimizer, run.hparams, Workers.of(tf.distribute.get_strategy()), specs
    )
    for length in (3, 4, 5):
        step.update(
            [
                {
                    "inputs": tf.ones([2, length], tf.int32),
                    "targets": tf.ones([2, length], tf.int32),
                    "weight": tf.ones([2]),
                }
            ]
        )
    assert step._whole.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_xla_computes_the_same(tmp_path: Path, replicas: int) -> None:
    changes = {**SHARED, "batch_size": 6, "halting": "basic"}
    strategy = mirrored(replicas) if replicas > 1 else None
    with eager_functions():
        plain, _ = run_steps(toy_run(tmp_path, **changes), 2, strategy)
    compiled, _ = run_steps(toy_run(tmp_path, jit_compile=True, **changes), 2, strategy)
    assert (
        relative_difference([report.loss for report in plain], [report.loss for report in compiled])
        < 1e-4
    )


def test_boards_that_were_padded_for_xla_are_refused() -> None:
    sizes = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,attention=false,position=none"
    hparams = make_hparams("ut_tiny", f"{sizes},transition=sepconv2d,jit_compile=true")
    spec = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
    training = RandomTraining(hparams, spec, tf.distribute.get_strategy())
    batch = training.features(BatchShape(2, 9, 9))
    # A row without a symbol fills a batch up.
    filled = {**batch, "weight": tf.constant([1.0, 0.0])}
    filled["inputs"] = tf.concat([batch["inputs"][:1], tf.zeros([1, 9], tf.int32)], 0)
    tf.debugging.assert_equal(_whole_boards(filled)["inputs"], filled["inputs"])
    padded = {
        name: value if name == "weight" else tf.pad(value, [[0, 0], [0, 7]])
        for name, value in batch.items()
    }
    with pytest.raises(tf.errors.InvalidArgumentError) as refused:
        tf.function(_whole_boards)(padded)
    assert "set max_length to the number of cells" in str(marked_in(refused.value))


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_mixed_precision_stays_near_float32(tmp_path: Path) -> None:
    plain, _ = run_steps(toy_run(tmp_path, dropout=0.0), 2)
    for policy, loss_scale in (("mixed_bfloat16", 1.0), ("mixed_float16", 2.0**15)):
        run = toy_run(tmp_path, dropout=0.0, dtype_policy=policy)
        mixed, weights = run_steps(run, 2)
        assert (
            relative_difference(
                [report.loss for report in plain], [report.loss for report in mixed]
            )
            < 0.02
        )
        assert all(weight.dtype == np.float32 for weight in weights)
        assert mixed[0].loss_scale == loss_scale


def numbers(batch: dict[str, Any]) -> list[int]:
    """The numbers of the real examples."""
    pairs = zip(batch["number"].numpy().ravel(), batch["weight"].numpy().ravel(), strict=True)
    return [int(number) for number, weight in pairs if weight]


SCRIPT = Path(__file__).with_name("peak_memory.py")


def peak(overrides: str) -> float:
    """The peak memory in MB of a process that trains."""
    command = [sys.executable, str(SCRIPT), overrides]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [True, False])
def test_memory_is_flat_in_the_steps_without_gradient(drawn: bool) -> None:
    def depth(steps: int) -> str:
        if not drawn:
            return f"num_steps={steps}"
        return f"train_depth=uniform,train_depth.min={steps},train_depth.max={steps}"

    few, many = (peak(f"{depth(steps)},backprop_steps=4") for steps in (8, 64))
    assert many == pytest.approx(few, rel=0.05)
    # What the steps with gradient keep is seen by this measure.
    assert peak(f"{depth(16)},backprop_steps=16") > 1.2 * few
