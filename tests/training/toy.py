"""A tiny problem and runs of it, small enough that a training step takes milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.config.hparams import HParams, converted
from ut_tf.config.training import TrainingConfig
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.pipeline import train_batches
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.layers.recurrence_details import RecurrenceDetails
from ut_tf.models.training_contract import TrainableModel
from ut_tf.models.universal_transformer.config import UniversalTransformerConfig
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.run_weights import restore_weights
from ut_tf.storage.json_lines import objects
from ut_tf.symbols import END_ID, PADDING_ID
from ut_tf.training.batches import TrainingBatches
from ut_tf.training.distribution import Workers
from ut_tf.training.optimizer import make_optimizer
from ut_tf.training.step import TrainingStep
from ut_tf.training.step_report import StepReport

VOCABULARY = 7
EXAMPLES = 120


class ToyCopy(Problem):
    """Copy 2 to 6 symbols; 120 examples an epoch, other ones in every epoch."""

    name = "toy_copy"
    selection_metric: ClassVar[tuple[str, Literal["min", "max"]]] = ("loss", "min")

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        del data_dir, tmp_dir

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("tokens", "tokens", VOCABULARY, VOCABULARY, shared_vocab=True)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        del data_dir, length
        is_training = split == "train"
        generator = np.random.default_rng([seed, epoch] if is_training else 10_000_000)
        sizes = generator.integers(2, 7, EXAMPLES if is_training else 16)[:, np.newaxis]
        symbols = generator.integers(2, VOCABULARY, [len(sizes), 7])
        places = np.arange(7)
        symbols = np.where(places < sizes, symbols, np.where(places == sizes, END_ID, PADDING_ID))
        ids = tf.constant(symbols, tf.int32)

        def batch(numbers: Any) -> dict[str, Any]:
            rows = tf.gather(ids, numbers)
            return {"inputs": rows, "targets": rows}

        return ExampleTable((sizes[:, 0] + 1).astype(np.int32), batch)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        del lengths
        return [EvaluationSet("", "validation", "teacher_forced")]


class ToyClass(ToyCopy):
    """Which of two classes: whether the first symbol is above the second."""

    name = "toy_class"

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("tokens", "class", VOCABULARY, 2)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        table = super().examples(split, data_dir, seed, epoch, length)

        def batch(numbers: Any) -> dict[str, Any]:
            inputs = table.batch(numbers)["inputs"]
            return {"inputs": inputs, "targets": tf.cast(inputs[:, 0] > inputs[:, 1], tf.int32)}

        return ExampleTable(table.lengths, batch)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        del lengths
        return [EvaluationSet("", "validation", "classify")]


for toy in (ToyCopy, ToyClass):
    registry.problems.register(toy.name, toy)

SMALL = HParams(
    network=UniversalTransformerConfig(hidden_size=16, filter_size=32, num_heads=2, num_steps=2),
    training=TrainingConfig(
        batch_size=40,
        max_length=8,
        learning_rate=0.01,
        schedule="constant",
        warmup_steps=4,
        train_steps=20,
        eval_frequency=10,
        keep_checkpoint_max=2,
    ),
)


def toy_run(
    output_dir: Path,
    problem: str = "toy_copy",
    seed: int = 1,
    model: str = "toy_model",
    **changes: Any,
) -> Run:
    """Returns a run of a toy problem; `changes` are hyperparameters."""
    hparams = converted(SMALL, model)[0].change(**changes).resolve()
    output_dir.mkdir(parents=True, exist_ok=True)
    spec = registry.problems.get(problem)().spec(output_dir)
    return Run(
        problem=problem,
        problem_args={},
        hparams_set="small",
        hparams=hparams,
        overrides="",
        seed=seed,
        data_dir=output_dir,
        tmp_dir=output_dir,
        output_dir=output_dir,
        spec=spec,
    )


def lines(run: Run, kind: str) -> list[dict[str, Any]]:
    """Returns the lines of `kind` of a run's metrics.jsonl."""
    return [line for line in objects(run.output_dir / "metrics.jsonl") if line["kind"] == kind]


def losses(run: Run) -> dict[int, float]:
    """Returns the logged losses by step."""
    return {line["step"]: line["loss"] for line in lines(run, "train")}


class ToyDetails(NamedTuple):
    encoder: Any
    decoder: Any


class ToyModel(keras.Model, TrainableModel):  # type: ignore[misc]
    """What the trainer asks of a model and no more: each symbol is predicted from itself, and
    ponders by its own remainder.
    """

    def __init__(self, network: UniversalTransformerConfig, spec: ProblemSpec) -> None:
        super().__init__()
        self.is_class = spec.targets == "class"
        self._ponder_weight = None if network.halting == "none" else network.act_loss_weight
        self.embedding = keras.layers.Embedding(spec.input_vocab_size, network.hidden_size)
        self.dropout = keras.layers.Dropout(network.dropout)
        self.head = keras.layers.Dense(spec.target_vocab_size)
        self.halting = keras.layers.Dense(1, activation="sigmoid", dtype="float32")
        for part in (self.embedding, self.halting, self.head):
            part.build([None, network.hidden_size])
        self.built = True

    @property
    def ponder_weight(self) -> float | None:
        return self._ponder_weight

    def call(
        self, features: dict[str, Any], training: bool = False, return_details: bool = False
    ) -> Any:
        inputs = features["inputs"]
        mask = tf.cast(inputs != 0, tf.float32)
        states = self.dropout(self.embedding(inputs), training=training)
        remainders = self.halting(states)[..., 0]
        summary = (
            tf.reduce_sum(states * tf.cast(mask, states.dtype)[..., None], 1)
            if self.is_class
            else states
        )
        logits = tf.cast(self.head(summary), tf.float32)
        details = ToyDetails(
            RecurrenceDetails(2.0 * mask, remainders, mask, remainders[tf.newaxis]), None
        )
        return (logits, details) if return_details else logits

    def max_steps(self, training: bool) -> int:
        del training
        return 4

    def counted_positions(self, features: dict[str, Any]) -> tuple[Any, ...]:
        return (tf.cast(features["inputs"] != 0, tf.float32),)


registry.models.register("toy_model", ToyModel)


class Killed(BaseException):
    """Stands for a process that is gone."""


def kill() -> None:
    raise Killed


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int, action: Callable[[], Any]) -> None:
    """Calls `action` in the middle of update number `step` of this process."""
    original, count = TrainingStep.update, 0

    def update(self: TrainingStep, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == step:
            action()
        return original(self, *arguments)

    monkeypatch.setattr(TrainingStep, "update", update)


def saved_weights(run: Run) -> list[Any]:
    """Returns the weights of the last checkpoint."""
    model = run.make_model()
    restore_weights(model, run, "last")
    return [weight.numpy() for weight in model.weights]


def run_steps(
    run: Run, steps: int, strategy: Any = None, carried: list[Any] | None = None
) -> tuple[list[StepReport], list[Any]]:
    """Returns the reports of the first updates of a run, and the weights after them; adds to
    `carried` what goes out of each update, with the replicas in front.
    """
    strategy = strategy or tf.distribute.get_strategy()
    workers = Workers.of(strategy)
    keras.utils.set_random_seed(run.seed)
    with strategy.scope():
        model = run.make_model()
        optimizer = make_optimizer(model.trainable_variables, run.hparams, seed=0)
    problem = run.make_problem()
    batches = TrainingBatches(
        lambda epoch, skip: train_batches(
            problem, run.data_dir, run.hparams.training, workers.replicas, run.seed, epoch, skip
        ),
        workers,
    )
    step = TrainingStep(model, optimizer, run.hparams, workers, batches.element_spec)
    reports, carry = [], None
    for _ in range(steps):
        parts = [batches.next() for _ in range(run.hparams.training.accumulate_steps)]
        report, carry = step.update(parts, carry)
        reports.append(report)
        if carried is not None:
            carried.append(tf.nest.map_structure(workers.stacked, carry[0]))
    batches.close()
    return step.read(reports), [weight.numpy() for weight in model.trainable_variables]


def mirrored(replicas: int) -> Any:
    """Returns MirroredStrategy over as many logical CPU devices."""
    devices = [f"CPU:{number}" for number in range(replicas)]
    # TensorFlow's collectives mix up the strategies of one process; summing on one device does not.
    return tf.distribute.MirroredStrategy(
        devices, cross_device_ops=tf.distribute.ReductionToOneDevice()
    )
