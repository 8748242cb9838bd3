"""Figures of evaluations show the numbers that they were given."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bin.tiny_runs import save
from tests.training.toy import toy_run
from ut_tf.bin import eval as eval_command
from ut_tf.data.problem import EvaluationSet
from ut_tf.evaluation.exit_sweep import ExitPoint, ExitSweep
from ut_tf.evaluation.measurement import Measurement
from ut_tf.evaluation.observations import Observed, observe_checkpoint
from ut_tf.figures.evaluations import evaluation_figures
from ut_tf.figures.exits import exit_front
from ut_tf.figures.style import as_svg
from ut_tf.metrics.sums import Group
from ut_tf.run import Run


def test_lengths_are_in_order_and_their_intervals_are_the_error_bars() -> None:
    metrics = {"length_400/seq_acc": 0.5, "length_40/seq_acc": 1.0, "length_40/loss": 0.1}
    intervals = {"length_400/seq_acc": (0.4, 0.7)}
    sets = [EvaluationSet(f"length_{length}", "test", "greedy", length) for length in (40, 400)]
    figures = evaluation_figures(Measurement(metrics, intervals), sets, {})
    assert set(figures) == {"accuracy_by_length"}
    (axis,) = figures["accuracy_by_length"].axes
    (bars,) = axis.containers
    line, _, (reach,) = bars
    np.testing.assert_allclose(line.get_xydata(), [[40, 1.0], [400, 0.5]])
    np.testing.assert_allclose(reach.get_segments()[1], [[400, 0.4], [400, 0.7]])


def test_groups_are_bars_in_the_order_of_their_numbers() -> None:
    metrics = {"error": 5.0, "error/10": 6.0, "error/2": 4.0, "ponder_time": 2.0}
    metrics |= {"ponder_time/question": 4.5, "ponder_time/facts": 1.5}
    metrics |= {"ponder_time_std": 0.5, "ponder_time_std/10": 0.4, "ponder_time_std/2": 0.6}
    groups = {number: Group("task", number, 8) for number in ("10", "2")}
    for number, time in (("2", 2.5), ("3", 3.5)):
        metrics[f"ponder_time/supporting_facts_{number}"] = time
        groups[f"supporting_facts_{number}"] = Group("supporting_facts", number, 4)
    sets = [EvaluationSet("", "test", "classify", group_by="task", ponder_by="supporting_facts")]
    figures = evaluation_figures(Measurement(metrics, groups=groups), sets, {})
    assert set(figures) == {
        "error_by_task",
        "ponder_time_by_position",
        "ponder_time_by_supporting_facts",
    }
    (axis,) = figures["error_by_task"].axes
    assert [bar.get_height() for bar in axis.patches] == [4.0, 6.0]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["2", "10"]


def test_names_with_dollars_are_no_formulas() -> None:
    confusion = Counter({("$5 to $10", "$\\frac$"): 1, ("$\\frac$", "$\\frac$"): 1})
    sets = [EvaluationSet("", "test", "classify")]
    figures = evaluation_figures(Measurement({}), sets, {"": Observed(confusion=confusion)})
    drawn = as_svg(figures["confusion"])
    assert "$5 to $10" in drawn and "$\\frac$" in drawn


def test_ponder_times_and_confusions_are_shares() -> None:
    confusion = Counter({("hall", "hall"): 3, ("hall", "garden"): 1, ("garden", "garden"): 2})
    observed = {"": Observed({"encoder": np.array([0.0, 1.0, 3.0])}, confusion)}
    sets = [EvaluationSet("", "test", "classify")]
    figures = evaluation_figures(Measurement({"error": 1.0}), sets, observed)
    (axis,) = figures["ponder_times"].axes
    shares = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axis.patches}
    assert shares == {1: 0.25, 2: 0.75}
    assert "mean 1.75 steps" in as_svg(figures["ponder_times"])
    matrix = figures["confusion"].axes[0]
    np.testing.assert_allclose(matrix.images[0].get_array(), [[1.0, 0.0], [0.25, 0.75]])
    assert [label.get_text() for label in matrix.get_yticklabels()] == ["garden (2)", "hall (4)"]


def test_rare_classes_share_a_row() -> None:
    confusion = Counter({(str(number), "0"): 100 - number for number in range(30)})
    observed = {"": Observed(confusion=confusion)}
    sets = [EvaluationSet("", "test", "classify")]
    matrix = evaluation_figures(Measurement({}), sets, observed)["confusion"].axes[0]
    assert matrix.images[0].get_array().shape == (20, 20)
    others = sum(100 - number for number in range(19, 30))
    assert matrix.get_yticklabels()[-1].get_text() == f"others ({others})"


def test_an_exit_front_has_a_line_for_each_rule_and_a_star_for_full_depth() -> None:
    metrics = [{"seq_acc": value} for value in (0.5, 0.25, 0.4375)]
    points = (
        ExitPoint("none", None, 6.0, 1.25, metrics[0]),
        ExitPoint("kl", 0.1, 2.5, 0.5, metrics[1]),
        ExitPoint("kl", 0.001, 3.5, 0.75, metrics[2]),
    )
    steps, milliseconds = exit_front(ExitSweep(70, ("seq_acc",), points)).axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in steps.lines}
    assert lines["kl"] == [[2.5, 0.25], [3.5, 0.4375]]
    assert lines["full depth"] == [[6.0, 0.5]]
    assert milliseconds.lines[0].get_xydata().tolist() == [[0.5, 0.25], [0.75, 0.4375]]
    assert [text.get_text() for text in steps.texts] == ["0.1", "0.001"]


def test_ut_eval_draws_what_the_model_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = toy_run(tmp_path, "toy_class", model="universal_transformer", halting="basic")
    save(run, (1,))
    kept: dict[str, Observed] = {}

    def observe(*arguments: Any) -> dict[str, Observed]:
        kept.update(observe_checkpoint(*arguments))
        return kept

    monkeypatch.setattr("ut_tf.evaluation.observations.observe_checkpoint", observe)
    monkeypatch.setattr(Run, "load", lambda *_args, **_options: run)
    monkeypatch.setattr(Run, "prepare", lambda run, _problem: run)
    assert eval_command.main([f"--output_dir={tmp_path}", "--figures"]) == 0
    metrics, observed = json.loads(capsys.readouterr().out), kept[""]
    assert sum(observed.confusion.values()) == 16
    assert observed.ponder_counts["encoder"][0] == 0
    right = sum(n for (target, answer), n in observed.confusion.items() if target == answer)
    assert metrics["error"] == pytest.approx(100.0 * (1.0 - right / 16))
    counts = observed.ponder_counts["encoder"]
    mean = (counts * np.arange(len(counts))).sum() / counts.sum()
    assert metrics["ponder_time"] == pytest.approx(mean)
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    names = ("confusion", "ponder_times")
    assert drawn == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert f"mean {mean:.2f} steps" in (tmp_path / "figures" / "ponder_times.svg").read_text()


def test_figures_without_matplotlib_name_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert eval_command.main(["--output_dir=x", "--figures"]) == 1
    assert "pip install matplotlib" in capsys.readouterr().err
