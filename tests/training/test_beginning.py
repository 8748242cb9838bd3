"""What a training says before its first regular line: its schedule, its speed, the time left."""

from __future__ import annotations

import dataclasses
import io
import time
from pathlib import Path
from typing import Any

import pytest

from tests.training.toy import ToyModel, toy_run
from ut_tf.config.hparams import HParams
from ut_tf.factories import make_hparams
from ut_tf.models.universal_transformer.parts import make_halting
from ut_tf.run import Run
from ut_tf.training import trainer
from ut_tf.training.hooks.first_minute import FirstMinute
from ut_tf.training.hooks.hook import Schedule
from ut_tf.training.hooks.ponder_watch import PonderWatch
from ut_tf.training.opening import Beginning, long_training, opening_lines
from ut_tf.training.progress import ProgressLine, Speedometer
from ut_tf.training.state_values import TrainingState, Window
from ut_tf.training.step_report import StepReport


class Clock:
    """A time that the test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def shown(
    monkeypatch: pytest.MonkeyPatch,
    seconds_per_update: float,
    updates: int,
    by_clock: bool = True,
    train_steps: int = 250_000,
) -> list[str]:
    """The lines after so many updates that all take as long, with a regular one every 100."""
    clock, stream = Clock(), io.StringIO()
    monkeypatch.setattr(time, "monotonic", clock)
    progress, speedometer = ProgressLine(train_steps, stream=stream), Speedometer()
    regular = Schedule(100, train_steps)
    hook = FirstMinute(1, regular, progress, speedometer, by_clock, "{} are too long".format, clock)
    state = TrainingState(step=1)
    progress.start(1)
    assert not hook.due(state)
    for step in range(2, updates + 2):
        clock.seconds += seconds_per_update
        state.step = step
        state.window.add(StepReport(2.0, 2.0, 64.0, 1.0, 0.01, 1.0))
        speedometer.count(64.0)
        if hook.due(state):
            hook.after_update(state)
    return stream.getvalue().splitlines()


def test_slow_updates_are_told_after_the_second_and_then_by_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second, advice, *others = shown(monkeypatch, 20.0, 5)
    # 249,998 updates of 20 seconds.
    assert second == "step 2 took 20 s: about 57 d 20 h for the updates that are left"
    assert advice == "57 d 20 h are too long"
    # Every 30 seconds at least, as often as updates end.
    assert [line.split("/")[0] for line in others] == ["step 4", "step 6"]
    assert others[0].startswith("step 4/250000  loss 2.0000  rate 0.01  3 tokens/s")
    assert others[0].endswith("left 57 d 20 h")


def test_fast_updates_say_one_line_and_regular_lines_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (line,) = shown(monkeypatch, 0.05, 90, train_steps=2002)
    assert line == "step 2 took 0.05 s: about 1:40 for the updates that are left"
    # Update 100 has a regular line; what takes long from there on is told by it.
    assert [
        text.split("/")[0] for text in shown(monkeypatch, 0.4, 400, train_steps=10_000)[1:]
    ] == ["step 77"]


def run_of(problem: str, hparams_set: str, overrides: str = "") -> Run:
    hparams = make_hparams(hparams_set, overrides)
    place = Path("runs/x")
    return Run(
        problem=problem,
        problem_args={},
        hparams_set=hparams_set,
        hparams=hparams,
        overrides=overrides,
        seed=0,
        data_dir=place,
        tmp_dir=place,
        output_dir=place,
    )


@pytest.mark.parametrize(
    ("problem", "hparams_set", "recipe"),
    [
        ("babi_qa", "ut_base", "ut_babi_joint"),
        ("babi_qa_task1_10k", "transformer_big", "ut_babi"),
        ("translate_ende_multi30k", "ut_base", "ut_translate_small"),
        ("translate_ende_wmt14", "ut_wmt14", None),
        ("babi_qa", "ut_babi_joint", None),
        ("toy_copy", "ut_base", None),
    ],
)
def test_a_training_of_days_names_the_recipe_for_the_problem(
    problem: str, hparams_set: str, recipe: str | None
) -> None:
    line = long_training(run_of(problem, hparams_set), "57 d 20 h")
    assert line.startswith("note: training takes about 57 d 20 h more on this machine; ")
    assert line.count("\n") == 0
    if recipe is None:
        assert "`plan`" in line and "hparams_set" not in line
    else:
        assert f"{problem} has the set {recipe} (" in line
        assert f"`hparams_set`={recipe}, in another `output_dir`" in line


def beginning(run: Run, train_steps: int, step: int = 0) -> list[str]:
    lines = opening_lines(Beginning(run, step, train_steps, 10, "the CPU", None))
    return [line for line in lines if line.startswith("note:")]


def test_an_end_far_before_that_of_the_schedule_is_foretold() -> None:
    run = run_of("translate_ende_multi30k", "ut_translate_small")  # 4,000 updates, warm-up of 400.
    (both,) = beginning(run, 400)
    assert "at step 400 of a cosine schedule of 4000 updates, within the warm-up of 400" in both
    assert "the learning rate at 0.0012:" in both
    assert "`hparams`=train_steps=400,warmup_steps=40, in another" in both
    (early,) = beginning(run, 1500)
    assert "`hparams`=train_steps=1500, in another" in early and "warm-up" not in early
    assert beginning(run, 4000) == beginning(run, 2000) == []
    # Where training goes on, its schedule is settled.
    assert beginning(run, 400, step=100) == []
    split = dataclasses.replace(run, hparams=run.hparams.change(train_steps=8000, decay_steps=4000))
    (own,) = beginning(split, 1500)
    assert "train_steps=1500,decay_steps=1500," in own


def test_a_warm_up_that_does_not_end_is_foretold_whatever_the_schedule() -> None:
    run = run_of("babi_qa", "ut_tiny")
    warmup = run.hparams.training.warmup_steps
    assert run.hparams.training.schedule == "noam"
    (line,) = beginning(run, warmup)
    assert f"`hparams`=warmup_steps={warmup // 10}, in another" in line
    assert beginning(run, warmup + 1) == []


def told(times: list[float], max_steps: int = 6, **changes: Any) -> str:
    """What is said after log points every 100 updates, with these mean ponder times."""
    stream = io.StringIO()
    network = HParams().change(**{"halting": "basic", **changes}).network
    remedies = [str(make_halting(network).remedy(few)) for few in (True, False)]
    watch = PonderWatch(
        Schedule(100, 10_000),
        (remedies[0], remedies[1]),
        max_steps,
        ProgressLine(10_000, stream=stream),
        patience=300,
    )
    for number, mean in enumerate(times, 1):
        low = int(mean)
        histogram = [0.0] * (max_steps + 1)
        histogram[low] = 100.0 * (low + 1 - mean)
        if mean > low:
            histogram[low + 1] = 100.0 * (mean - low)
        state = TrainingState(step=100 * number, window=Window(steps=100, histogram=histogram))
        if watch.due(state):
            watch.after_update(state)
    return stream.getvalue()


def test_the_bias_trap_is_told_once_with_the_field_to_change() -> None:
    text = told([3.0, 2.0, 2.01, 2.0, 2.0, 2.0, 2.0, 2.0], act_halting_bias_init=1.0)
    assert text.count("warning") == 1
    assert "has stood at 2.00 for 300 updates" in text
    assert "a lower act_halting_bias_init (now 1) or a lower act_loss_weight (now 0.01)" in text


def test_so_is_halting_that_never_happens() -> None:
    text = told([6.0, 6.0, 5.99])
    assert "at 5.99, its maximum, for 300 updates" in text
    assert "a higher act_halting_bias_init (now -1) or a higher act_loss_weight" in text
    assert "a higher ponder_kl_weight (now 0.01)" in told([6.0] * 3, halting="pondernet")


@pytest.mark.parametrize(
    ("times", "max_steps"),
    [
        ([2.0, 2.0, 2.3, 2.0, 2.0], 6),
        ([6.0, 6.0, 5.8, 6.0, 6.0], 6),
        ([6.0, 2.0, 6.0, 2.0, 6.0, 2.0], 6),
        ([1.6] * 5, 2),
        ([1.0] * 5, 1),
    ],
)
def test_what_moves_or_cannot_move_is_no_trap(times: list[float], max_steps: int) -> None:
    assert told(times, max_steps) == ""


@pytest.mark.usefixtures("eager")
def test_training_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainer, "PONDER_PATIENCE", 2)
    monkeypatch.setattr(ToyModel, "ponder_remedy", lambda *_, **__: "another bias")
    # The toy model takes 2 steps at every position.
    trainer.train(toy_run(tmp_path, halting="basic", train_steps=3), log_frequency=1)
    assert capsys.readouterr().err.count("has stood at 2.00 for 2 updates") == 1
