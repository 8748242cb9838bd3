"""ut-sweep: the grid, its children, what it passes over, and what it says when something fails."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.bin.stub_runs import evaluate, stub_run
from ut_tf import registry
from ut_tf.bin import sweep
from ut_tf.bin.sweep_search import fractional
from ut_tf.config.fields import option
from ut_tf.config.hparams import HParams
from ut_tf.errors import UserError
from ut_tf.models.universal_transformer.train_depth import TrainDepth
from ut_tf.sweeping import sweep as library
from ut_tf.sweeping.grid import Progress, make_cells

TINY = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,batch_size=64,max_length=16"
GRID = [
    "--problems=algorithmic_{copy,reverse}_decimal40",
    "--hparams_sets=ut_algorithmic",
    "--seeds=1..2",
]


def test_an_evaluation_that_left_no_record_is_no_crash(tmp_path):
    assert "no record is kept" in library._headline(tmp_path)
    (tmp_path / "evaluations.jsonl").write_text("{}\n")
    assert "evaluations.jsonl:1 is no record" in library._headline(tmp_path)
    assert not library._headline(tmp_path).endswith(".")


def test_a_run_directory_is_no_folder_of_a_sweep(tmp_path, capsys):
    stub_run(tmp_path / "run", "algorithmic_copy_decimal40", "ut_algorithmic")
    assert sweep.main([*GRID, f"--output_dir={tmp_path}/run"]) == 1
    assert "is a run of its own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "status", "expected"),
    [
        (["--problems=algorithmic_cpy_decimal40"], 1, "did you mean algorithmic_copy_decimal40"),
        (["--problems=babi_qa{1..3"], 2, "has no other half; expected names such as"),
        (["--seeds=ten"], 2, "'ten' is no whole number and no range"),
        (["--task=2", "--tasks=2"], 2, "--task=2 with --tasks=2: expected a number from 0"),
        (["--launcher=slurm"], 2, "unknown flag --launcher: it is gone; start --task=INDEX"),
        (["--train_steps=5"], 2, "--train_steps is a flag of ut-trainer: give it after --"),
        (["--", "--trin_steps=5"], 2, "unknown flag --trin_steps; did you mean --train_steps"),
        (["--", "--hparams=drpout=1"], 1, "did you mean dropout"),
        (["--", "--dry_run"], 2, "--dry_run is a flag of ut-sweep: give it before --"),
        (["--", "--schedule=evaluate"], 2, "trains nothing"),
        (["--grid=dropout=0.1+3"], 1, "dropout=3: expected at least 0 and below 1"),
        (["--grid=train_steps=3+4"], 2, "train_steps is the same for a row of the table"),
        (["--grid=dropout=0.1", "--", "--hparams=dropout=0.2"], 1, "'dropout' is set twice"),
    ],
)
def test_mistakes_are_told_before_anything_starts(tmp_path, capsys, flags, status, expected):
    names = {flag.partition("=")[0] for flag in flags}
    own = [flag for flag in GRID if flag.partition("=")[0] not in names]
    assert sweep.main([*own, f"--output_dir={tmp_path}/sweep", *flags]) == status
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize(
    ("flags", "status", "expected"),
    [
        (["--trials=3"], 2, "give --search"),
        (["--search=dropout=0..0.3"], 2, "--trials is missing"),
        (["--search=dropout=0..0.3", "--trials=9", "--pruner=best"], 2, "median, halving, none"),
        (["--search=dropout=0..0.3", "--trials=9", "--seeds=1,2"], 2, "one problem"),
        (["--search=dropout=0.3..0.1", "--trials=9"], 2, "dropout=0.3..0.1"),
        (["--search=dropout=0..3", "--trials=9"], 1, "dropout=3: expected at least 0 and below 1"),
        (["--halving=0.5"], 2, "--search with --pruner=halving"),
    ],
)
def test_mistakes_of_a_search_are_told_at_once(tmp_path, capsys, flags, status, expected):
    pytest.importorskip("optuna")
    own = ["--problems=algorithmic_copy_decimal40", "--hparams_sets=ut_algorithmic"]
    assert sweep.main([*own, f"--output_dir={tmp_path}/sweep", *flags]) == status
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


def test_a_run_of_another_kind_in_a_cell_s_place_is_refused(tmp_path, capsys):
    stub_run(
        tmp_path / "algorithmic_copy_decimal40-ut_algorithmic-seed1",
        "algorithmic_copy_decimal40",
        "ut_algorithmic",
        seed=7,
    )
    assert sweep.main([*GRID, f"--output_dir={tmp_path}"]) == 1
    assert "seed: 7 -> 1" in capsys.readouterr().err


def _dry(capsys, *flags):
    assert sweep.main(["--dry_run", *flags]) == 0
    return [shlex.split(line, comments=True) for line in capsys.readouterr().out.splitlines()]


SWEEPS = sorted((Path(__file__).parents[2] / "results" / "sweeps").glob("*.flags"))


@pytest.mark.slow
@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_the_sweeps_beside_the_results_can_be_run(file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sweep.main(["--dry_run", f"--flagfile={file}"]) == 0
    out, err = capsys.readouterr()
    assert "no effect" not in err
    trained = [line for line in out.splitlines() if line.startswith("ut-trainer")]
    assert len(set(trained)) == len(trained) >= 9


def test_a_dry_run_shows_each_command_and_makes_nothing(tmp_path, capsys):
    # A shell that expands the braces itself gives the flag twice.
    words = [
        "--problems=algorithmic_copy_decimal40",
        "--problems=algorithmic_reverse_decimal40",
        "--hparams_sets=ut_algorithmic",
    ]
    lines = _dry(
        capsys,
        *words,
        "--seeds=1..2",
        f"--output_dir={tmp_path}/s w",
        "--lengths=5",
        "--",
        "--train_steps=3",
    )
    assert lines == _dry(
        capsys, *GRID, f"--output_dir={tmp_path}/s w", "--lengths=5", "--", "--train_steps=3"
    )
    assert [line[0] for line in lines] == ["ut-trainer", "ut-eval"] * 4
    place = f"--output_dir={tmp_path}/s w/algorithmic_copy_decimal40-ut_algorithmic-seed1"
    assert lines[:2] == [
        [
            *("ut-trainer", "--problem=algorithmic_copy_decimal40", "--hparams_set=ut_algorithmic"),
            *("--random_seed=1", place, "--train_steps=3"),
        ],
        ["ut-eval", place, "--lengths=5"],
    ]
    assert not any(tmp_path.iterdir())


def test_the_points_of_a_grid_are_rows(tmp_path, capsys):
    problem, points = "algorithmic_copy_decimal40", ["dropout=0.1", "dropout=0.3"]
    for cell in make_cells([problem], ["ut_algorithmic"], [1, 2], points):
        place = tmp_path / cell.name
        stub_run(place, problem, cell.hparams_set, cell.seed, cell.point)
        evaluate(place, {"length_400/seq_acc": 0.5}, 0.5)
        Progress(tmp_path).note(cell, "finished", [], [], 1.0)
    own = [f"--problems={problem}", *GRID[1:], f"--output_dir={tmp_path}"]
    assert sweep.main([*own, "--grid=dropout=0.1+0.3"]) == 0
    rows = [line.split("|")[3:6:2] for line in capsys.readouterr().out.splitlines()[3:5]]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["`ut_algorithmic, dropout=0.1`", "2"],
        ["`ut_algorithmic, dropout=0.3`", "2"],
    ]


def test_runs_at_a_time_share_cores_and_gpus(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    lines = _dry(
        capsys, *GRID, f"--output_dir={tmp_path}", "--parallel=3", "--", "--inter_op_threads=5"
    )
    assert [word for word in lines[0] if "threads" in word] == [
        "--intra_op_threads=2",
        "--inter_op_threads=2",
        "--inter_op_threads=5",
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    values = sweep.flags.parse(
        sweep.COMMAND,
        sweep.DESCRIPTION,
        sweep.FLAGS,
        [*GRID, f"--output_dir={tmp_path}", "--parallel=3"],
    )
    environments = sweep._sweep(values).environments()
    assert [one["CUDA_VISIBLE_DEVICES"] for one in environments] == ["0", "1", "0"]
    assert {one["TF_NUM_INTRAOP_THREADS"] for one in environments} == {"2"}


def test_what_is_finished_is_passed_over_and_a_larger_grid_adds_to_it(tmp_path, capsys):
    for cell in make_cells(["algorithmic_copy_decimal40"], ["ut_algorithmic"], [1, 2]):
        evaluate(
            stub_run(tmp_path / cell.name, cell.problem, cell.hparams_set, cell.seed),
            {"length_400/seq_acc": 0.5},
            0.5,
        )
        Progress(tmp_path).note(cell, "finished", ["--train_steps=3"], [], 1.0)
    more = [f"--output_dir={tmp_path}", "--", "--train_steps=3"]
    assert [line[:1] for line in _dry(capsys, *GRID, *more)] == [
        [],
        ["ut-trainer"],
        ["ut-eval"],
        [],
        ["ut-trainer"],
        ["ut-eval"],
    ]
    # Another evaluation does not train again; more updates do; a run that has gone is made again.
    assert [line[0] for line in _dry(capsys, *GRID, "--lengths=80", *more)].count("ut-trainer") == 2
    assert [line[0] for line in _dry(capsys, *GRID, *more[:-1], "--train_steps=4")].count(
        "ut-trainer"
    ) == 4
    (tmp_path / "algorithmic_copy_decimal40-ut_algorithmic-seed1" / "evaluations.jsonl").unlink()
    assert next(line[:1] for line in _dry(capsys, *GRID, *more)) == ["ut-eval"]


@pytest.mark.slow
def test_a_sweep_trains_and_evaluates(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    folder, problem = tmp_path / "sweep", "prefix_sums_32"
    own = [
        *(f"--problems={problem}", "--hparams_sets=ut_algorithmic", f"--output_dir={folder}"),
        "--lengths=4",
    ]
    trainer_flags = [
        *("--train_steps=1", f"--hparams={TINY}"),
        "--problem_args=train_examples=64,validation_examples=8,test_examples=8",
        *(f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}/tmp", "--num_gpus=0"),
    ]
    assert sweep.main([*own, "--", *trainer_flags]) == 0
    out, err = capsys.readouterr()
    name = f"{problem}-ut_algorithmic-seed0"
    assert f"{name}: length_4/seq_acc" in err
    assert f"| `{problem}` " in out
    assert _states(folder) == {name: "finished"}
    assert (folder / name / "checkpoints").is_dir()


def test_a_failure_is_reported_with_its_log(tmp_path, capsys, monkeypatch):
    finished, failing = make_cells(["algorithmic_copy_decimal40"], ["ut_algorithmic"], [1, 2])
    folder = stub_run(tmp_path / finished.name, finished.problem, finished.hparams_set, 1)
    evaluate(folder, {"length_400/char_acc": 0.9, "length_400/seq_acc": 0.2}, 0.8, "max")
    Progress(tmp_path).note(finished, "finished", [], [], 1.0)
    stub = tmp_path / "python"
    stub.write_text("#!/bin/sh\necho 'ut-trainer: error: no data.' >&2\nexit 1\n")
    stub.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(stub))
    own = ["--problems=algorithmic_copy_decimal40", *GRID[1:], f"--output_dir={tmp_path}"]
    assert sweep.main(own) == 1
    out, err = capsys.readouterr()
    log = tmp_path / failing.name / "sweep.log"
    assert f"{failing.name}: failed after" in err
    assert f"ut-trainer: error: no data; its log: {log}" in err
    assert "ut-trainer: error:" in log.read_text()
    assert "| `algorithmic_copy_decimal40` | UT" in out
    assert _states(tmp_path) == {finished.name: "finished", failing.name: "failed"}


def _states(folder):
    cells = json.loads((folder / "sweep.json").read_text())["cells"]
    return {name: cell["state"] for name, cell in cells.items()}


def test_tasks_share_the_runs_and_refuse_a_sweep_beside_them(tmp_path, capsys):
    own = [*GRID, f"--output_dir={tmp_path}"]
    lines = [_dry(capsys, *own, f"--task={task}", "--tasks=3") for task in range(3)]
    assert sorted(line for task in lines for line in task) == sorted(_dry(capsys, *own))
    with sweep._held_alone(tmp_path, 1, 3):
        with sweep._held_alone(tmp_path, 2, 3):
            pass
        for task, tasks in ((0, 1), (0, 2), (1, 3)):
            with pytest.raises(UserError), sweep._held_alone(tmp_path, task, tasks):
                pass
    assert sweep.main([*own, "--task=5", "--tasks=6"]) == 0
    assert "0 runs in" in capsys.readouterr().err


def test_a_search_knows_what_need_not_be_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(TrainDepth):
        options: ClassVar[dict[str, Any]] = {
            "mean": option(4.0, "steps", above=0),
            "least": option(1, "steps", at_least=1),
        }

    monkeypatch.setattr(registry.train_depths, "_registered", {"own": (Own, __file__)})
    hparams = HParams().override("train_depth=own")
    fractions = {"train_depth.mean", "attention_dropout", "learning_rate"}
    assert fractional(hparams, [*fractions, "train_depth.least", "num_steps"]) == fractions
