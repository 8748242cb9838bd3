"""metrics.jsonl, the progress line and TensorBoard's files."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext

from tests.training.toy import ToyCopy, toy_run
from ut_tf.evaluation.evaluator import Evaluator
from ut_tf.evaluation.validations import diverging, judged
from ut_tf.storage import json_lines
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.storage.json_lines import objects
from ut_tf.storage.layout import METRICS_FILE
from ut_tf.training.logs import RunLog, drop_lines_after
from ut_tf.training.progress import ProgressLine, format_duration
from ut_tf.training.state_values import TrainingState, Window
from ut_tf.training.step_report import StepReport
from ut_tf.training.trainer import train


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_after_the_restored_step_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = [{"kind": "train", "step": step, "loss": 0.1 * step} for step in (1, 2, 3, 4)]
    path.write_text("".join(json.dumps(line) + "\n" for line in whole) + '{"kind": "tra')
    drop_lines_after(path, 2)
    assert [json.loads(line) for line in path.read_text().splitlines()] == whole[:2]


@pytest.mark.parametrize("damage", [b"\xff", b"\0\0", b"[1]", b'{"step": 1e999}', b"[" * 9999])
def test_a_damaged_line_is_dropped_and_the_others_stay(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = b'{"kind": "eval", "step": 1, "loss": 0.5}\n'
    path.write_bytes(whole + damage + b"\n" + whole)
    drop_lines_after(path, 2)
    assert path.read_bytes() == whole + whole
    path.write_bytes(damage + b"\n" + whole)
    assert [values["loss"] for values in objects(path) if "loss" in values] == [0.5]


def test_a_line_without_an_end_fills_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "MOST_JSON_BYTES", 50)
    path = tmp_path / "metrics.jsonl"
    whole = b'{"kind": "eval", "step": 1}\n'
    path.write_bytes(whole + b" " * 500 + b"\n" + whole + b" " * 500)
    drop_lines_after(path, 2)
    assert path.read_bytes() == whole + whole


def test_numbers_keep_every_bit_and_nan_is_null(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 0)
    loss = 1.0 / 3.0
    log.train(1, {"loss": loss, "gradient_norm": float("inf")}, [0.0, 2.0, 5.0])
    log.evaluation(1, {"loss": loss, "accuracy": float("nan")})
    log.close()
    train, evaluation = objects(tmp_path / "metrics.jsonl")
    assert train == {
        "kind": "train",
        "step": 1,
        "loss": loss,
        "gradient_norm": None,
        "ponder_histogram": [0.0, 2.0, 5.0],
    }
    assert evaluation == {"kind": "eval", "step": 1, "loss": loss, "accuracy": None}
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_the_loss_after_each_step_is_the_mean_over_updates(tmp_path: Path) -> None:
    window, log = Window(), RunLog(tmp_path, 0)
    for losses, counts in (((3.0, 0.0, 1.0), (2.0, 0.0, 1.0)), ((1.0, 0.0, 8.0), (2.0, 0.0, 3.0))):
        window.add(StepReport(2.0, 2.0, 4.0, 1.0, 0.1, 1.0, step_losses=losses, step_counts=counts))
    log.train(2, {"loss": 2.0}, [], window.losses_by_step())
    log.close()
    (line,) = objects(tmp_path / "metrics.jsonl")
    assert line["step_losses"] == [1.0, None, 2.25]
    stream = io.StringIO()
    ProgressLine(9, stream=stream).show(2, 2.0, 0.1, 1.0, None, window.losses_by_step())
    assert "loss 2.0000  by step 1: 1 ... 3: 2.25  rate" in stream.getvalue()


def test_tensorboard_shows_the_mean_and_the_histogram_of_ponder_times(tmp_path: Path) -> None:
    log = RunLog(tmp_path, 0)
    for step in (1, 2):
        log.train(step, {"loss": 0.5, "ponder_time": 1.7}, [0.0, 3.0, 7.0])
    log.close()
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(tmp_path / "tensorboard"))
    multiplexer.Reload()
    provider, context = MultiplexerDataProvider(multiplexer, str(tmp_path)), RequestContext()
    (scalars,) = provider.list_scalars(context, experiment_id="", plugin_name="scalars").values()
    (histograms,) = provider.list_tensors(
        context, experiment_id="", plugin_name="histograms"
    ).values()
    assert set(scalars) == {"train/loss", "train/ponder_time"}
    assert set(histograms) == {"train/ponder_time_histogram"}
    # The fast loader drops a tag of two kinds altogether.
    assert not set(scalars) & set(histograms)


def test_elsewhere_than_on_a_terminal_each_log_point_is_a_line() -> None:
    stream = io.StringIO()
    progress = ProgressLine(100, stream=stream)
    progress.show(10, 1.5, 0.001, 2000.0, None)
    progress.show(20, 1.25, 0.001, 2000.0, 3.5)
    progress.finish()
    first, second = stream.getvalue().splitlines()
    assert first.startswith("step 10/100  loss 1.5000  rate 0.001  2,000 tokens/s  left")
    assert "ponder 3.50" in second


def test_on_a_terminal_one_line_is_rewritten_until_something_else_is_said() -> None:
    stream = Terminal()
    progress = ProgressLine(100, stream=stream)
    progress.show(10, 1.5, 0.001, 2000.0, None)
    progress.show(20, 1.0, 0.001, 2000.0, None)
    progress.say("step 20: accuracy 1")
    assert stream.getvalue().count("\n") == 2
    assert stream.getvalue().count("\r") == 2
    assert stream.getvalue().endswith("step 20: accuracy 1\n")


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (75, "1:15"), (3723, "1:02:03")])
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


reports = st.builds(
    StepReport,
    *[st.floats(-1e3, 1e3, width=32)] * 7,
    st.tuples(*[st.integers(0, 1000).map(float)] * 3),
)


@given(st.lists(reports, min_size=2, max_size=8), st.data())
def test_a_window_that_was_saved_midway_logs_the_same_bits(
    given_reports: list[StepReport], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(given_reports) - 1))
    whole = TrainingState(step=7)
    for report in given_reports:
        whole.window.add(report)
    first = TrainingState(step=7)
    for report in given_reports[:cut]:
        first.window.add(report)
    second = TrainingState.from_dict(json.loads(json.dumps(first.to_dict())))
    for report in given_reports[cut:]:
        second.window.add(report)
    assert second.window.values() == whole.window.values()


def test_mean_ponder_time_of_a_window() -> None:
    window = Window()
    window.add(StepReport(1.0, 1.0, 10.0, 1.0, 0.1, 1.0, 2.0, (0.0, 1.0, 3.0)))
    assert window.ponder_time == pytest.approx(7 / 4)
    window.add(StepReport(1.0, 1.0, 10.0, 1.0, 0.1, 1.0, 2.0, (0.0, 3.0, 0.0)))
    assert window.ponder_time == pytest.approx(10 / 7)


@pytest.mark.parametrize(
    ("direction", "values", "losses", "best", "without_progress"),
    [
        ("min", [3.0, 2.0, 2.0, math.nan, 5.0], [None] * 5, 2, 3),
        ("max", [1.0, math.nan, 4.0, 4.0, 0.0], [0.1] * 5, 3, 2),
        ("max", [0.9, 1.0, 1.0, 1.0, 1.0], [0.5, 0.4, 0.2, 0.3, math.nan], 3, 3),
        ("min", [5.0, 2.0, 2.0, 3.0, 2.0], [0.5, 0.4, 0.6, 0.1, 0.3], 5, 3),
        # What is not finite, the value or the loss, is never the best, whatever the other is.
        ("min", [5.0, 2.0, 2.0, 2.0], [math.nan, math.nan, 0.1, math.nan], 3, 1),
        ("min", [2.0, 1.0, -math.inf, 0.5], [0.1, math.inf, 0.1, -math.inf], 1, 3),
        ("max", [math.inf, 0.5, math.inf], [0.1, 0.2, math.nan], 2, 1),
        ("max", [-math.inf, math.nan, 0.0], [None, None, None], 3, 0),
        ("max", [1.0, math.nan, math.inf], [math.nan, 0.1, math.inf], None, 3),
        ("min", [2.0, 2.0], [None, 0.1], 2, 1),
    ],
)
def test_the_best_evaluation_is_the_one_with_the_lowest_loss_of_the_best(
    direction: Literal["min", "max"],
    values: list[float],
    losses: list[float | None],
    best: int | None,
    without_progress: int,
) -> None:
    state = TrainingState()
    for step, (value, loss) in enumerate(zip(values, losses, strict=True), 1):
        state.step = step
        state.judge(value, direction, loss)
    assert state.best_step == best
    assert state.bad_evaluations == without_progress


@pytest.mark.parametrize(("value", "loss"), [(math.inf, 0.1), (math.nan, None), (2.0, math.nan)])
def test_what_an_older_version_took_for_the_best_gives_way(
    value: float, loss: float | None
) -> None:
    state = TrainingState(step=4, best_step=2, best_value=value, best_loss=loss)
    state.judge(1.0, "max", 0.5)
    assert (state.best_step, state.best_value, state.best_loss) == (4, 1.0, 0.5)


# Update by update; of the first and the last alone both are numbers.
EVALUATIONS = [
    {"accuracy": 0.5, "loss": 1.0},
    {"accuracy": 0.9, "loss": math.nan},
    {"accuracy": 0.9, "loss": math.inf},
    {"accuracy": math.nan, "loss": 0.5},
    {"accuracy": math.inf, "loss": 0.5},
    {"accuracy": 0.9, "loss": 0.5, "long/loss": math.nan},
    {"accuracy": 0.6, "loss": 0.9},
]


@pytest.mark.usefixtures("eager")
def test_what_is_no_number_is_told_and_never_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ToyCopy, "selection_metric", ("accuracy", "max"))
    run = toy_run(tmp_path, eval_frequency=1, train_steps=7, keep_checkpoint_max=9)
    found = iter(EVALUATIONS)
    monkeypatch.setattr(Evaluator, "evaluate", lambda *_: next(found))
    best = []
    original = CheckpointStore.mark_best
    monkeypatch.setattr(
        CheckpointStore,
        "mark_best",
        lambda self, step: best.append(step) or original(self, step),  # type: ignore[func-returns-value]
    )
    train(run)
    # The first mark is that of the beginning, if any.
    assert best[-7:] == [1, 1, 1, 1, 1, 1, 7]
    assert CheckpointStore(tmp_path).best_step() == 7
    lines = [line for line in capsys.readouterr().err.splitlines() if "diverged" in line]
    told = ["loss is nan", "loss is inf", "accuracy is nan", "accuracy is inf", "long/loss is nan"]
    assert len(lines) == len(told)
    for step, (line, words) in enumerate(zip(lines, told, strict=True), 2):
        assert line.startswith(f"warning: at step {step} ") and words in line
        assert "that of step 1 stays" in line and "lower learning_rate" in line
    assert list(judged(tmp_path / METRICS_FILE, "accuracy")) == [(1, 0.5), (7, 0.6)]


@pytest.mark.usefixtures("eager")
def test_where_no_evaluation_is_sound_none_is_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Evaluator, "evaluate", lambda *_: {"loss": math.inf})
    run = toy_run(tmp_path, eval_frequency=1, train_steps=2)
    train(run)
    assert CheckpointStore(tmp_path).best_step() is None
    assert capsys.readouterr().err.count("does not count as the best, none is;") == 2


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, None])
def test_losses_of_every_set_are_looked_at_and_those_of_groups_are_not(
    number: float | None,
) -> None:
    metrics = {"loss": 1.0, "long/loss": number, "loss/task_1": math.nan, "error": math.nan}
    assert list(diverging(metrics)) == ["long/loss"]
    # As a file has it.
    assert list(diverging(json.loads(json.dumps(metrics)))) == ["long/loss"]
