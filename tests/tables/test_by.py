"""Metrics of runs over length, depth and difficulty, regret, and the Chomsky tasks: from files of
tiny runs to tables and figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bin.stub_runs import evaluate, stub_run
from tests.tables.report_rows import rows
from ut_tf.bin import report
from ut_tf.figures.by import regret_bars
from ut_tf.tables.by import panels_by
from ut_tf.tables.runs import find_runs

TASKS = ("sudoku_4x4", "maze_9", "prefix_sums_32", "p_hop")
FORMS = ("basic", "fixed depth", "kl 0.01", "confidence 0.1", "argmax_stable 2")


def judged(
    folder: Path, form: str, wasted: float, use: str = "", trained_to_exit: bool = False
) -> None:
    """Writes what ut-eval --by_difficulty would."""
    totals = {"wasted": wasted, "too_many": 1.5, "too_few": 0.25, "accuracy": 0.9}
    metrics = {"accuracy": 0.8, "steps": 4.0, "final": 2.0}
    values: dict[str, Any] = {"form": form, "trained_to_exit": trained_to_exit, "totals": totals}
    values["points"] = [{"difficulty": at, "metrics": metrics} for at in (1, 2)]
    (folder / f"by_difficulty{use}.json").write_text(json.dumps(values))


def regret_runs(place: Path) -> Path:
    for task in TASKS:
        for seed in (0, 1):
            run = stub_run(place / f"{task}-{seed}", task, "ut_act_sudoku4", seed)
            for number, form in enumerate(FORMS):
                judged(run, form, number + seed, f"-{number}" if number else "")
    return place


@pytest.mark.slow
def test_regret_of_five_forms_on_four_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = regret_runs(tmp_path / "runs")
    assert report.main([str(place), "--by=regret"]) == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        f"## {task}" for task in sorted(TASKS)
    ]
    lines = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    assert lines.count(["", "kl 0.01", *["2.5 (2 seeds)", "1.5 (2 seeds)"], *["0.25 (2 seeds)"],
                        "0.9 (2 seeds)", ""]) == len(TASKS)  # fmt: skip
    figure = regret_bars(panels_by(find_runs([place])[0], "regret"))
    assert len(figure.axes) == len(TASKS)
    for axis in figure.axes:
        assert [label.get_text() for label in axis.get_yticklabels()] == [*FORMS[::-1]]
        (wasted,) = (line for line in axis.lines if line.get_marker() == "D")
        assert wasted.get_xdata().tolist() == [4.5, 3.5, 2.5, 1.5, 0.5]
        assert [bar.get_width() for bar in axis.patches] == [-0.25] * 5 + [1.5] * 5
    for name in ("regret.pdf", "regret.svg", "regret.png"):
        assert report.main([str(place), "--by=regret", f"--output={tmp_path / name}"]) == 0
    assert (tmp_path / "regret.pdf").read_bytes().startswith(b"%PDF")
    assert "argmax_stable 2" in (tmp_path / "regret.svg").read_text()


def test_regret_of_a_network_trained_to_exit_has_a_panel_of_its_own(tmp_path: Path) -> None:
    plain = stub_run(tmp_path / "plain", TASKS[0], "ut_act_sudoku4")
    judged(plain, "kl 0.01", 1.0)
    # Evaluations in another use alone.
    evaluate(plain, {"accuracy": 1.0}, hparams="eval_act_max_steps=8")
    exits = stub_run(tmp_path / "exits", TASKS[0], "ut_act_sudoku4", 1)
    judged(exits, "kl 0.01", 2.0, trained_to_exit=True)
    panels = panels_by(find_runs([tmp_path])[0], "regret")
    assert panels[TASKS[0]]["kl 0.01"]["wasted"] == [1.0]
    assert panels[f"{TASKS[0]}, trained to exit"]["kl 0.01"]["wasted"] == [2.0]


def test_lengths_say_what_was_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stub_run(tmp_path / "a", "prefix_sums_32", "ut_act_sudoku4")
    evaluate(run, {"length_32/accuracy": 1.0, "length_128/accuracy": 0.75, "loss": 0.5})
    evaluate(run, {"length_64/accuracy": 0.5}, lengths=[64])
    other = stub_run(tmp_path / "b", "prefix_sums_32", "ut_act_sudoku4", 1)
    evaluate(other, {"length_32/accuracy": 0.5, "length_128/accuracy": 0.25})
    assert report.main([str(tmp_path), "--by=length"]) == 0
    text = capsys.readouterr().out
    assert "## prefix_sums_32: accuracy, trained up to 32" in text
    assert "| 32 " in text and text.index("| 32 ") < text.index("| 64 ") < text.index("| 128 ")
    assert "0.75 (2 seeds)" in text and "0.5 (2 seeds)" in text


def test_chomsky_tasks_stand_beneath_the_published_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = stub_run(tmp_path / "ut", "chomsky_parity_check", "ut_chomsky")
    lengths = {"length_40/accuracy": 0.0, "length_41/accuracy": 1.0, "length_500/accuracy": 0.5}
    evaluate(ours, lengths)
    peer = stub_run(tmp_path / "t", "chomsky_reverse_string", "transformer_chomsky")
    evaluate(peer, {"length_80/accuracy": 0.625})
    assert report.main([str(tmp_path), "--tables=chomsky"]) == 0
    text = capsys.readouterr().out
    by_task = {row[0]: row[1:] for row in rows(text, "chomsky")}
    assert len(by_task) >= 15
    # The mean over the lengths above 40; RNN, Stack-RNN, Tape-RNN, Transformer and LSTM before it.
    assert by_task["parity_check"][:5] == ["1.000", "1.000", "1.000", ".520", "1.000"]
    assert any(cell.startswith("0.750") for cell in by_task["parity_check"][5:])
    assert any(cell.startswith("0.625") for cell in by_task["reverse_string"][5:])
    assert by_task["solve_equation"][:5] == [""] * 5
