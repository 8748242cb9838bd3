"""Figures of evaluations show the numbers that they were given."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bin.stub_runs import evaluate, stub_run
from tests.bin.tiny_runs import save
from tests.tables.report_rows import at_400
from tests.training.toy import toy_run
from ut_tf.bin import eval as eval_command
from ut_tf.bin import report
from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.evaluation.compute import ComputePoint, ComputeSweep
from ut_tf.evaluation.measurement import CheckpointMeasurement, Measurement
from ut_tf.evaluation.observations import Observed, observe_checkpoint
from ut_tf.figures.board_steps import board_steps, save_animation
from ut_tf.figures.by import curves_by
from ut_tf.figures.curves import learning_curves, main_curves, matching_curves, read_curves
from ut_tf.figures.evaluations import evaluation_figures
from ut_tf.figures.exits import compute_front
from ut_tf.figures.style import as_svg
from ut_tf.metrics.sums import Group
from ut_tf.run import Run
from ut_tf.storage.json_lines import sealed
from ut_tf.tables.curves import curves_of_runs
from ut_tf.tables.runs import find_runs


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
    assert (axis.get_ylabel(), axis.get_xlabel()) == ("error (%)", "task")
    assert [label.get_text() for label in axis.get_xticklabels()] == ["2", "10"]


def test_ponder_times_and_confusions_are_shares() -> None:
    confusion = Counter({("hall", "hall"): 3, ("hall", "garden"): 1, ("garden", "garden"): 2})
    observed = {"": Observed({"encoder": np.array([0.0, 1.0, 3.0])}, confusion)}
    sets = [EvaluationSet("", "test", "classify")]
    figures = evaluation_figures(Measurement({"error": 1.0}), sets, observed)
    (axis,) = figures["ponder_times"].axes
    shares = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axis.patches}
    assert shares == {1: 0.25, 2: 0.75}
    assert "mean 1.75 steps" in as_svg(figures["ponder_times"])
    assert all(tick == round(tick) for tick in axis.get_xticks())
    matrix = figures["confusion"].axes[0]
    np.testing.assert_allclose(matrix.images[0].get_array(), [[1.0, 0.0], [0.25, 0.75]])
    assert [label.get_text() for label in matrix.get_yticklabels()] == ["garden (2)", "hall (4)"]
    assert [text.get_text() for text in matrix.texts] == ["100", "25", "75"]


def test_an_exit_front_has_a_line_for_each_rule_and_a_star_for_full_depth() -> None:
    measured = [CheckpointMeasurement({"seq_acc": value}) for value in (0.5, 0.25, 0.4375)]
    points = (
        ComputePoint("none", None, "", False, measured[0], 6.0, None, 1.25),
        ComputePoint("kl", 0.1, "", False, measured[1], 2.5, None, 0.5),
        ComputePoint("kl", 0.001, "", False, measured[2], 3.5, None, 0.75),
    )
    steps, milliseconds = compute_front(ComputeSweep(70, ("seq_acc",), points)).axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in steps.lines}
    assert lines["kl"] == [[2.5, 0.25], [3.5, 0.4375]]
    assert lines["full depth"] == [[6.0, 0.5]]
    assert milliseconds.lines[0].get_xydata().tolist() == [[0.5, 0.25], [0.75, 0.4375]]
    assert [text.get_text() for text in steps.texts] == ["0.1", "0.001"]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
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
    assert drawn == {f"{name}.{kind}" for name in names for kind in ("svg", "png", "pdf")}
    assert f"mean {mean:.2f} steps" in (tmp_path / "figures" / "ponder_times.svg").read_text()


def test_figures_without_matplotlib_name_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert eval_command.main(["--output_dir=x", "--figures"]) == 1
    assert "pip install matplotlib" in capsys.readouterr().err


# A cell that is given, one that is final after step 2, and two after step 1.
ANSWERS = ["1143", "1243", "1243"]


def example(
    times: tuple[int, ...] = (3, 3, 3, 3), rounds: tuple[int, ...] = (), texts: str = "1..."
) -> dict[str, Any]:
    positions = [
        {"text": text, "role": "cell", "ponder_time": float(time)}
        for text, time in zip(texts, times, strict=True)
    ]
    for position, difficulty in zip(positions, rounds, strict=False):
        position["difficulty"] = difficulty
    predictions = [[[{"text": text, "probability": 1.0}] for text in step] for step in ANSWERS]
    part = {
        "positions": positions,
        "predictions": predictions,
        "board": {"rows": 2, "columns": 2, "box_rows": None, "box_columns": None},
    }
    return {"target": "12\n43", "thoughts": [{"parts": [part]}]}


def test_a_cell_stops_where_it_halts_or_its_answer_stays() -> None:
    steps = board_steps(example())
    assert steps.given == ["1", "", "", ""] and steps.target == "1243" and steps.rounds is None
    assert steps.stopped == [1, 2, 1, 1] and not steps.halts
    halting = board_steps(example((1, 3, 2, 1)))
    assert halting.stopped == [1, 3, 2, 1] and halting.halts
    assert board_steps(example(rounds=(0, 2, 1, 1))).rounds == [0, 2, 1, 1]


@pytest.mark.slow
def test_a_gif_has_a_frame_for_each_step_and_round_and_one_before(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    sizes = []
    for name, rounds, count in (("alone.gif", (), 4), ("beside.gif", (0, 5, 1, 1), 6)):
        save_animation(board_steps(example(rounds=rounds)), tmp_path / name)
        with image.open(tmp_path / name) as frames:
            assert frames.n_frames == count
            sizes.append(frames.size)
    assert sizes[1][0] == 2 * sizes[0][0] and sizes[1][1] == sizes[0][1]
    with pytest.raises(UserError, match=r"cannot be written"):
        save_animation(board_steps(example()), tmp_path / "alone.gif" / "board.gif")


def test_walls_are_filled_and_given_cells_grey(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    maze = {**example(texts="#3.."), "target": "#343"}
    save_animation(board_steps(maze), tmp_path / "maze.gif")
    with image.open(tmp_path / "maze.gif") as frames:
        first = frames.convert("RGB")
    width, height = first.size
    wall, given, blank = (
        max(first.getpixel((int(width * x), int(height * y))))
        for x, y in ((0.3, 0.15), (0.6, 0.15), (0.3, 0.5))
    )
    assert wall < 100 < given < 240 < blank


def test_what_has_no_board_is_refused() -> None:
    story = example()
    story["thoughts"][0]["parts"][0]["board"] = None
    with pytest.raises(UserError, match=r"^an animation shows a board"):
        board_steps(story)


COPY = "algorithmic_copy_decimal40"


def _log(folder: Path, *values: float) -> Path:
    lines = [{"kind": "train", "step": step, "loss": 2.0 / step} for step in (10, 20)]
    lines += [
        {"kind": "eval", "step": 10 * number, "seq_acc": value, "loss": None}
        for number, value in enumerate(values, 1)
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text + '{"kind": "tra')
    return folder


def test_curves_of_runs_share_a_panel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged = {"a": (0.25, 0.5), "b": (0.125,)}
    runs = [_log(stub_run(tmp_path / name, COPY), *values) for name, values in logged.items()]
    # Two of one seed are no seeds of one line.
    curves = curves_of_runs(find_runs(runs)[0])
    assert "metrics.jsonl, line 5 is cut short" in capsys.readouterr().err
    names = main_curves(curves)
    assert names == ["train/loss", "eval/seq_acc"]
    axes = learning_curves(curves, names).axes
    assert [axis.get_ylabel() for axis in axes] == [
        "training loss (nats)",
        "validation accuracy (share of whole\nsequences)",
    ]
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes[1].lines}
    assert drawn == {"a": [[10, 0.25], [20, 0.5]], "b": [[10, 0.125]]}
    with pytest.raises(UserError, match="did you mean train/loss"):
        learning_curves(curves, ["train/los"])
    assert matching_curves(curves, ["eval/*", "train/los"]) == ["eval/seq_acc", "train/los"]
    places = [*map(str, runs), "--curves=eval/seq_*", f"--output={tmp_path}/all.svg"]
    assert report.main(places) == 0
    assert "all.svg" in capsys.readouterr().err
    assert "share of whole" in (tmp_path / "all.svg").read_text()
    assert not (tmp_path / "all.png").exists()
    (runs[1] / "metrics.jsonl").unlink()
    assert report.main(places) == 0
    assert f"warning: {runs[1]} is left out: it has no metrics.jsonl" in capsys.readouterr().err
    assert report.main([str(runs[1]), "--curves"]) == 1
    assert "none of the runs has learning curves" in capsys.readouterr().err


def test_seeds_are_a_mean_and_a_band_as_far_as_they_got(tmp_path: Path) -> None:
    for seed, values in enumerate([(0.0, 0.5, 1.0), (0.5, 1.0), (0.25,)]):
        _log(stub_run(tmp_path / f"{seed}", COPY, "ut_algorithmic", seed), *values)
    _log(stub_run(tmp_path / "other", COPY, "ut_act_algorithmic"), 0.125)
    curves = curves_of_runs(find_runs([tmp_path])[0])
    (axis,) = learning_curves(curves, ["eval/seq_acc"]).axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axis.lines}
    seeds = "ut_algorithmic (3 seeds)"
    assert lines.keys() == {seeds, "dynamic halting, ut_act_algorithmic"}
    assert lines[seeds] == [[10, 0.25], [20, 0.75], [30, 1.0]]
    band = axis.collections[list(lines).index(seeds)].get_paths()[0].vertices
    assert {tuple(place) for place in band.tolist()} == {
        *((10, 0.0), (10, 0.5), (20, 0.5), (20, 1.0), (30, 1.0))
    }


@pytest.mark.parametrize("by", ["update", "difficulty"])
def test_ticks_of_few_updates_or_difficulties_are_whole_numbers(by: str) -> None:
    values = {1: [0.5], 2: [0.75], 3: [1.0]}
    if by == "update":
        curve = [(step, value) for step, (value,) in values.items()]
        (axis,) = learning_curves({"a": [{"eval/seq_acc": curve}]}, ["eval/seq_acc"]).axes
    else:
        (axis,) = curves_by({"maze_9: accuracy": {"a": values}}, by).axes
    assert all(float(tick).is_integer() for tick in axis.get_xticks())


def test_a_value_that_is_no_number_leaves_a_gap(tmp_path: Path) -> None:
    folder = _log(stub_run(tmp_path / "a", COPY), 0.25, math.nan, 0.5)
    with warnings.catch_warnings(action="error"):
        (axis,) = learning_curves({"a": [read_curves(folder)]}, ["eval/seq_acc"]).axes
    assert axis.lines[0].get_ydata().tolist() == [0.25, None, 0.5]


def test_a_changed_bit_at_the_end_of_a_line_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [sealed(json.dumps({"kind": "train", "step": step, "loss": 1.5})) for step in (1, 2)]
    content = "".join(f"{line}\n" for line in lines).encode()
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(content)
    whole = read_curves(tmp_path)
    ends = (len(lines[0]), len(content) - 1)
    for bit in [8 * end + bit for end in ends for bit in range(-8, 8)]:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(changed))
        try:
            read = read_curves(tmp_path)
        except UserError as error:
            assert "metrics.jsonl, line" in str(error)
        else:
            assert (read == whole) != ("is cut short" in capsys.readouterr().err)


class _Links(HTMLParser):
    """Collects the targets of links, the tags, and what stands in cells."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attributes if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_report_as_html_is_one_file_with_plots_and_links(tmp_path: Path) -> None:
    for seed, value in enumerate((0.25, 0.75)):
        folder = stub_run(tmp_path / "runs" / f"copy {seed}", COPY, "ut_algorithmic", seed)
        evaluate(folder, at_400(value, 0.5), value, "max")
    other = stub_run(tmp_path / "runs" / "<b>", "algorithmic_identity_binary40", "ut_algorithmic")
    evaluate(other, {"seq_acc": 0.5}, data_note="<script>alert(1)</script>")
    output = tmp_path / "report.html"
    runs = str(tmp_path / "runs")
    assert report.main([runs, "--format=html", f"--output={output}"]) == 0
    text = output.read_text(encoding="utf-8")
    page = _Links()
    page.feed(text)
    pages = [link for link in page.links if not link.startswith("#")]
    assert {"runs/copy%200/", "runs/copy%201/", "runs/%3Cb%3E/"} == set(pages)
    assert {"table", "svg"} <= page.tags
    assert not page.tags & {"script", "b", "link", "img"}
    assert "<script>alert(1)</script>" in page.texts
    assert "ut_algorithmic" in " ".join(page.texts)
    (svg,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert "UT, ut_algorithmic" in svg and "(published)" in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg)) <= set(ids)
