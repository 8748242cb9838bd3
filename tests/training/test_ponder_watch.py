"""The warning of halting that stands still."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.training.toy import ToyModel, toy_run
from ut_tf.config.hparams import HParams
from ut_tf.models.universal_transformer.halting.base import Halting
from ut_tf.models.universal_transformer.halting.random_halting import Random
from ut_tf.models.universal_transformer.parts import make_halting
from ut_tf.training import trainer
from ut_tf.training.hooks.hook import Schedule
from ut_tf.training.hooks.ponder_watch import PonderWatch
from ut_tf.training.progress import ProgressLine
from ut_tf.training.progress_values import TrainingState, Window


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
    for number, time in enumerate(times, 1):
        low = int(time)
        histogram = [0.0] * (max_steps + 1)
        histogram[low] = 100.0 * (low + 1 - time)
        if time > low:
            histogram[low + 1] = 100.0 * (time - low)
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


def test_training_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainer, "PONDER_PATIENCE", 10)
    monkeypatch.setattr(ToyModel, "ponder_remedy", lambda *_, **__: "another bias")
    # The toy model takes 2 steps at every position.
    trainer.train(toy_run(tmp_path, halting="basic"), log_frequency=5)
    assert capsys.readouterr().err.count("has stood at 2.00 for 10 updates") == 1


def test_nothing_is_advised_of_a_form_that_reads_other_fields() -> None:
    class Own(Halting):
        pass

    assert Own().remedy(few=True) is None
    assert Random().remedy(few=False) is None
