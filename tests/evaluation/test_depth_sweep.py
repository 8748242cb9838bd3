"""Evaluations at many depths in one pass: what each row says, and the files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.bin.tiny_runs import save
from tests.training.toy import ToyCopy, toy_run
from ut_tf import registry
from ut_tf.bin import eval as eval_command
from ut_tf.bin.depth_list import depths_in
from ut_tf.bin.frame.flags import FlagError
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet
from ut_tf.errors import UserError
from ut_tf.evaluation.depth_pass import Seen, add_seen
from ut_tf.evaluation.depth_sweep import DepthSweep, depth_field, sweep_depths
from ut_tf.evaluation.evaluator import measure_checkpoint
from ut_tf.evaluation.records import read_records
from ut_tf.figures.depths import depth_curves
from ut_tf.layers.recurrence_details import GivenDepth
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run
from ut_tf.run_weights import copy_weights, load_checkpoint

DEPTHS = (1, 3)


class ToyAligned(ToyCopy):
    """The symbol at each position, with padding in places."""

    name = "toy_aligned"

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        return ProblemSpec("tokens", "aligned", 7, 7)

    def examples(self, *arguments: Any, **options: Any) -> ExampleTable:
        table = super().examples(*arguments, **options)
        return ExampleTable(np.full_like(table.lengths, 7), table.batch)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        del lengths
        return [EvaluationSet("", "validation", "aligned")]


@pytest.fixture(autouse=True)
def _aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.problems._registered, "toy_aligned", (ToyAligned, __file__))


FIXED: dict[str, Any] = {"eval_num_steps": 2}
BASIC = {"halting": "basic", "act_max_steps": 2, "act_halting_bias_init": -0.5}
TWO_LEVELS = {"H_cycles": 2, "L_cycles": 2, "two_nets": True, "initial_state": "fixed"}
QUICK: list[tuple[str, dict[str, Any]]] = [
    ("toy_class", FIXED),
    ("toy_aligned", BASIC | {"input_start_symbol": True, "memory_tokens": 2}),
]
# The first ones compute what the others do not.
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("toy_aligned", TWO_LEVELS | {"memory_tokens": 2, "q_head": True}),
    ("toy_aligned", {"eval_exit": "kl", "eval_exit_threshold": 0.1}),
    ("toy_aligned", {"initial_state": "noise", "input_injection": "add", "memory_tokens": 1}),
    ("toy_copy", BASIC),
    ("toy_class", {"halting": "pondernet", "act_max_steps": 3}),
    ("toy_aligned", {"mix_layers_before": 1, "memory_tokens": 2}),
]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("problem", "changes"), [*QUICK, *OTHERS])
def test_a_row_is_an_evaluation_at_its_depth(
    problem: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    run = toy_run(tmp_path, problem, model="universal_transformer", **changes)
    save(run, (1,))
    sweep = sweep_depths(run, DEPTHS)
    trained = 2 if changes.get("halting", "none") == "none" else changes.get("act_max_steps", 4)
    assert [point.depth for point in sweep.points] == sorted({*DEPTHS, trained})
    assert [point.depth for point in sweep.points if point.trained] == [trained]
    assert sweep.points[0].residual is not None
    if problem == "toy_aligned":
        assert {"seq_accuracy", "accuracy"} <= {*sweep.table().splitlines()[0].split()}
    for point in sweep.points:
        alone = measure_checkpoint(run.in_use(f"{sweep.field}={point.depth}"))
        assert point.metrics == pytest.approx(alone.metrics, rel=1e-5, abs=1e-6)
        for name in (name for name in alone.metrics if "acc" in name or "error" in name):
            assert point.metrics[name] == alone.metrics[name]
            assert point.measured.intervals[name] == alone.intervals[name]


@pytest.mark.parametrize(
    ("problem", "changes"),
    [
        OTHERS[0],
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (*QUICK, *OTHERS[1:])),
    ],
)
def test_logits_and_residuals_are_those_of_the_depth(
    problem: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    run = toy_run(tmp_path, problem, model="universal_transformer", **changes)
    save(run, (1,))
    model = load_checkpoint(run).model
    features = run.make_problem().examples("validation", tmp_path).batch(tf.range(4))
    field = "eval_num_steps" if changes.get("halting", "none") == "none" else "eval_act_max_steps"
    progress = None
    for depth in (1, 3):
        own = run.in_use(f"{field}={depth}").make_model()
        copy_weights(model, own)
        views: list[Any] = []
        expected, plain = own(features, return_details=True, observer=views.append)
        given = {**features, "to_depth": GivenDepth(tf.constant(depth), progress)}
        logits, details = model(given, return_details=True)
        np.testing.assert_allclose(logits, expected, atol=1e-5)
        part, like = (part.decoder or part.encoder for part in (details, plain))
        np.testing.assert_array_equal(part.ponder_times, like.ponder_times)
        progress = None if details.decoder else part.progress
        before, after = (np.asarray(state) for state in (views[-1].previous_state, views[-1].state))
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.linalg.norm(after - before, axis=-1) / np.linalg.norm(before, axis=-1)
        if views[-1].step + 1 < depth:
            moved = 0.0 * moved
        counted = np.asarray(part.mask) > 0.0
        if "mix_layers_after" not in changes:  # There the last view is another layer's.
            moved = moved[:, -counted.shape[1] :]
            np.testing.assert_allclose(part.residuals[counted], moved[counted], atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("changes", [{"recurrence": "dwa"}, {"steps_per_position": 0.5}])
def test_models_that_begin_anew_take_an_evaluation_for_each_depth(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    run = toy_run(tmp_path, "toy_class", model="universal_transformer", **changes)
    save(run, (1,))
    told: list[int] = []
    sweep = sweep_depths(run, (1,), on_depth=told.append)
    assert told == [1, 2]
    first = sweep.points[0]
    assert (first.residual, first.changed, first.found) == (None, None, None)
    assert first.metrics == measure_checkpoint(run.in_use("eval_num_steps=1")).metrics
    assert "residual" not in sweep.table()


def test_what_has_no_such_depth_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the model transformer does not have it"):
        sweep_depths(toy_run(tmp_path, model="transformer"), (1,))
    learned = toy_run(tmp_path, model="universal_transformer", step_encoding="learned")
    with pytest.raises(UserError, match="eval_num_steps=3 is more than num_steps=2"):
        sweep_depths(learned, (1, 3))


def test_the_trained_depth_of_deep_supervision_is_that_of_all_updates(tmp_path: Path) -> None:
    changes = {"supervision": "deep", "supervision_steps": 5, "input_injection": "add"}
    run = toy_run(tmp_path, model="universal_transformer", num_steps=3, **changes)
    assert depth_field(run) == ("eval_num_steps", 15)
    plain = toy_run(tmp_path, model="universal_transformer", num_steps=3)
    assert depth_field(plain) == ("eval_num_steps", 3)


def test_answers_are_compared_with_the_depth_before() -> None:
    def at(answers: list[list[int]], right: list[bool]) -> dict[str, Any]:
        counted = np.array([[True, True], [True, False], [True, True]])
        sums = np.array([1.5, 0.5, 1.0], np.float32)
        values = dict.fromkeys(("residuals", "moved", "steps", "positions"), sums)
        return {"answers": np.array(answers), "counted": counted, "right": np.array(right)} | values

    before = at([[1, 2], [3, 4], [5, 6]], [True, False, False])
    now = at([[1, 3], [3, 9], [7, 8]], [False, True, True])
    seen = Seen()
    add_seen(seen, before, None, 0.5)
    assert (seen.changed, seen.found, seen.lost) == (0, 0, 0)
    add_seen(seen, now, before, 1.0)
    # The fourth answer, which differs too, is padding's.
    assert seen == Seen(6.0, 6.0, 6.0, 6.0, answers=10, changed=3, found=2, lost=1, seconds=1.5)
    assert seen + seen == Seen(12.0, 12.0, 12.0, 12.0, 20, 6, 4, 2, 3.0)


@pytest.mark.parametrize(
    ("text", "depths"),
    [
        ("1,2,4..64", (1, 2, 4, 8, 16, 32, 64)),
        ("1..5", (1, 2, 3, 4, 5)),
        ("1,2,3, 8", (1, 2, 3, 8)),
        ("2,4..20,24..26", (2, 4, 8, 16, 24, 25, 26)),
        ("7", (7,)),
    ],
)
def test_lists_of_depths(text: str, depths: tuple[int, ...]) -> None:
    assert depths_in(text) == depths


@pytest.mark.parametrize(
    "text", ["4..2", "0", "a", "", "1,,2", "1,1", "4,2", "-1", "1..1001", "1..9999999", "1...3"]
)
def test_other_lists_are_answered_with_an_example(text: str) -> None:
    with pytest.raises(FlagError, match=r"1,2,4\.\.512") as error:
        depths_in(text)
    assert f"--depth_sweep={text}:" in str(error.value)


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_ut_eval_keeps_table_records_and_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = toy_run(tmp_path, "toy_aligned", model="universal_transformer")
    save(run, (1,))
    monkeypatch.setattr(Run, "load", lambda *_args, **_options: run)
    monkeypatch.setattr(Run, "prepare", lambda run, _problem: run)
    kept: list[DepthSweep] = []
    monkeypatch.setattr(
        "ut_tf.figures.depths.depth_curves", lambda sweep: kept.append(sweep) or depth_curves(sweep)
    )
    assert eval_command.main([f"--output_dir={tmp_path}", "--depth_sweep=1,4"]) == 0
    captured = capsys.readouterr()
    values = json.loads((tmp_path / "depth_sweep.json").read_text())
    assert json.loads(captured.out) == values
    assert [point["trained"] for point in values["points"]] == [False, True, False]
    assert "trained 2 " in captured.err and "--exit_sweep" in captured.err
    with (tmp_path / "depth_sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["depth"] for row in rows] == ["1", "2", "4"]
    assert [float(row["residual"]) for row in rows] == [
        point["residual"] for point in values["points"]
    ]
    records = read_records(tmp_path)
    used = ["eval_num_steps=1", "", "eval_num_steps=4"]
    assert [record.hparams for record in records] == used
    assert [record.metrics["loss"] for record in records] == [
        point["metrics"]["loss"] for point in values["points"]
    ]
    assert all(record.intervals["seq_accuracy"] for record in records)
    assert (tmp_path / "depth_sweep.svg").is_file() and (tmp_path / "depth_sweep.png").is_file()
    metric, residual = depth_curves(kept[0]).axes
    for axis in (metric, residual):
        (line,) = [line for line in axis.lines if line.get_label() == "depth of training"]
        assert list(line.get_xdata()) == [2, 2]
    assert metric.lines[0].get_xdata().tolist() == [1, 2, 4]


def test_flags_that_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--exit_sweep", "--test_problem=y", "--figures=f", "--decode_hparams=alpha=1"):
        assert eval_command.main(["--output_dir=x", "--depth_sweep=1,2", flag]) == 2
        assert "do not go together" in capsys.readouterr().err
    assert eval_command.main(["--output_dir=x", "--depth_sweep=4..2"]) == 2
