"""A measured plan: its counts, what it assumes without data, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from tests.bin.quick_commands import call_commands
from ut_tf.bin import trainer
from ut_tf.bin.training_plan import duration, plan_text
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams, make_model
from ut_tf.models.graph_flop import graph_flop
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.training import plan as plans
from ut_tf.training.plan import BatchShape, RandomTraining, largest_batch, make_plan

SPEC = ProblemSpec("tokens", "tokens", 20, 20, shared_vocab=True)
ALIGNED = ProblemSpec("tokens", "aligned", 9, 9, shared_vocab=True)
SMALL = "hidden_size=16,filter_size=24,num_heads=2,num_steps=2"
BATCH = BatchShape(32, 6, 5)


@pytest.mark.parametrize(
    ("seconds", "time"),
    [(0.0123, "12.3 ms"), (3.6, "3.6 s"), (1800, "30 min"), (31900, "8.86 h"), (9e5, "10.4 days")],
)
def test_times_have_sensible_units(seconds: float, time: str) -> None:
    assert duration(seconds) == time


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_plan_counts_parameters_and_the_products_of_an_update() -> None:
    hparams = make_hparams("ut_tiny", SMALL + ",average_decay=0.9")
    plan = make_plan(hparams, SPEC, [BATCH], BATCH, tf.distribute.get_strategy())
    parameters = make_model(hparams, SPEC, 0).count_params()
    assert sum(plan.parameters.values()) == parameters
    # Weights, two moments and the average; iterations besides.
    assert 0 <= plan.kept - 4 * 4 * parameters < 100
    assert (plan.memory is None or plan.memory > plan.kept) and plan.seconds > 0
    d, f, steps = 16, 24, 2

    def products(positions: int, memory: int) -> int:
        own = 4 * d * d + 2 * positions * d + 2 * d * f
        return positions * (own + (2 * d * d + 2 * memory * d if memory else 0))

    each = steps * (products(6, 0) + products(5, 6)) + 6 * 2 * d * d + 5 * d * 20
    assert plan.flop == pytest.approx(3 * 2 * BATCH.examples * each, rel=0.02)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_an_update_that_would_take_long_is_scaled_from_a_smaller_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plans, "_LONGEST_UPDATE", 0.0)
    hparams = make_hparams("ut_tiny", SMALL)
    batch = BatchShape(32, 6, 0)
    plan = make_plan(hparams, ALIGNED, [batch], batch, tf.distribute.get_strategy())
    assert plan.measured == BatchShape(2, 6, 0) and plan.typical == batch
    trained = RandomTraining(hparams, ALIGNED, tf.distribute.get_strategy())
    assert plan.flop == pytest.approx(graph_flop(*trained.graph(batch)), rel=0.01)


BOARDS = BatchShape(4, 10, 0)
SIZES = "hidden_size=32,filter_size=64,num_heads=2"


def flop_of(
    hparams: str, spec: ProblemSpec = ALIGNED, batch: BatchShape = BOARDS, model: str | None = None
) -> float:
    trained = RandomTraining(
        make_hparams("ut_tiny", hparams, model), spec, tf.distribute.get_strategy()
    )
    return graph_flop(*trained.graph(batch))


# Forward steps and steps with gradient, of which each takes twice a forward step's products.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("hparams", "forward", "backward"),
    [
        ("train_depth=uniform,train_depth.max=15,backprop_steps=1", 8, 1),
        ("num_steps=8", 8, 8),
        ("halting=basic,act_max_steps=8", 8, 8),
        ("num_steps=8,supervision=each", 8, 8),
        # n is uniform in 0..7, k in 1..8-n; besides, at alpha below 1, all steps.
        ("num_steps=8,supervision=progressive,progressive_alpha=0.5", 8 + 6.25, 8 + 2.75),
        ("num_steps=8,backprop_steps=2", 8, 2),
        ("num_steps=8,supervision=progressive,progressive_alpha=1.0", 3.5 + 2.75, 2.75),
        ("train_depth=uniform,train_depth.max=15", 8, 8),
        ("halting=pondernet,act_max_steps=8", 8, 8),
        ("num_steps=3,steps_per_position=0.5", 8, 8),
    ],
)
def test_an_update_counts_every_step_of_a_loop(
    hparams: str, forward: float, backward: float
) -> None:
    d, f, positions = 32, 64, BOARDS.positions
    step = 2 * positions * (4 * d * d + 2 * 10 * d + 2 * d * f)
    answers = 3 * 2 * positions * d * 9
    expected = step * (forward + 2 * backward)
    # Answers of every step, and halting units, are what remains; drawn depths are a mean of draws.
    assert 0.98 * expected < flop_of(f"{SIZES},{hparams}") < 1.05 * expected + 8 * answers


@pytest.mark.slow
def test_loops_without_a_bound_are_counted() -> None:
    def flop(model: str, length: int) -> float:
        return flop_of("hidden_size=32", SPEC, BatchShape(2, length, length), model)

    # A cell for each position, and for a neural GPU all positions as often as there are any.
    assert flop("lstm", 20) == pytest.approx(2 * flop("lstm", 10), rel=0.1)
    assert flop("neural_gpu", 20) == pytest.approx(4 * flop("neural_gpu", 10), rel=0.01)


def test_a_model_beyond_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_free_memory", lambda: 10**6)
    with pytest.raises(UserError, match=r"0\.0 GB: lower `hidden_size`=1024"):
        largest = largest_batch(make_hparams("ut_base").training, SPEC)
        make_plan(make_hparams("ut_base"), SPEC, [largest], largest, tf.distribute.get_strategy())


def test_damaged_data_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.plan("algorithmic_reverse_decimal40", "ut_tiny", output_dir=str(tmp_path / "run"))

    def damaged(*_: Any) -> Any:
        raise UserError("words.txt is damaged")

    monkeypatch.setattr(type(run.make_problem()), "spec", damaged)
    with pytest.raises(UserError, match=r"words\.txt is damaged"):
        plan_text(run, SimpleNamespace(train_steps=1), tf.distribute.get_strategy())


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_plan_before_any_data_counts_the_network_of_the_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [f"--{name}={tmp_path / name}" for name in ("data_dir", "tmp_dir", "output_dir")]
    small = f"--hparams={SMALL},batch_size=256,train_steps=1000000000"
    command = ["--problem=babi_qa", "--hparams_set=ut_base", small, "--plan", *folders]
    assert trainer.main(command) == 0
    output = capsys.readouterr().out
    assert "parameters" in output and "per update" in output and " days" in output
    assert not list(tmp_path.iterdir())


def test_a_mistake_in_a_plan_is_answered_at_once() -> None:
    own = ["--problem=translate_ende_wmt14", "--hparams_set=ut_base", "--plan"]
    gone = ("trainer", [*own, "--plan_args=gpus=A100"])
    answers = call_commands([("trainer", [*own, "--hparams=hiden_size=3"]), gone])
    assert answers[0].status == 1 and "hidden_size" in answers[0].errors
    assert answers[1].status == 2 and "max_length" in answers[1].errors
    assert answers[0].imported == []
