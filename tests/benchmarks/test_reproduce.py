"""benchmarks/reproduce.py: which runs it takes, and that it trains one again by its command."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ut_tf.sweeping.jobs import Job, Jobs, Outcome
from ut_tf.tables.record import ResultRecord, keep_records

pytestmark = pytest.mark.slow

TINY = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,batch_size=64,max_length=16"
# A network that answers at each position: none is traced that writes.
PROBLEM = "prefix_sums_32"


@pytest.fixture
def reproduce(script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = script("reproduce")
    monkeypatch.setattr(module, "FOLDER", tmp_path / "again")
    return module


def kept(table: str, metric: str, value: float, seed: int = 0, **more: Any) -> ResultRecord:
    values: dict[str, Any] = {
        "problem": PROBLEM,
        "hparams_set": "ut_algorithmic",
        "version": "0.5.0",
        "minutes": 1.0,
        "command": f"ut-trainer --problem={PROBLEM} --hparams_set=ut_algorithmic --train_steps=1"
        f" --hparams={TINY} --output_dir=runs/elsewhere",
        "evaluation": "ut-eval --output_dir=runs/elsewhere --lengths=4",
        **more,
    }
    return ResultRecord(table=table, row="UT", metric=metric, value=value, seed=seed, **values)


def test_the_results_of_the_project_can_be_trained_again(reproduce: Any) -> None:
    files = sorted((Path(__file__).parents[2] / "results").glob("*.jsonl"))
    assert len(reproduce.stored_runs(files)) > 400


def test_the_cheapest_run_of_each_table_that_fits(tmp_path: Path, reproduce: Any) -> None:
    metric = "length_4/seq_accuracy"
    records = [
        kept("a", metric, 0.5, seed=0, minutes=9.0),
        kept("a", metric, 0.5, seed=1, minutes=2.0),
        kept("b", metric, 0.5, minutes=40.0),
        kept("c", metric, 0.5, minutes=3.0),
        # Nobody can run these again: no command, and a file of somebody's own.
        kept("d", metric, 0.5, command=None),
        kept("e", metric, 0.5, problem="lambada_rc", problem_args={"train_files": "novels.tar"}),
    ]
    keep_records(tmp_path / "x.jsonl", records)
    runs = reproduce.stored_runs([tmp_path / "x.jsonl"])
    names = [run.name for run in reproduce.choose(runs, [], 30.0)]
    assert names == [f"a/{PROBLEM}-ut_algorithmic-seed1", f"c/{PROBLEM}-ut_algorithmic-seed0"]
    assert [run.minutes > 9 for run in reproduce.choose(runs, ["a/*seed0", "b"], 1.0)] == [True] * 2


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (0.55, None, "within"),
        (0.65, (0.58, 0.7), "overlapping"),
        (0.65, (0.61, 0.7), "apart"),
        (0.65, None, "apart"),
    ],
)
def test_a_figure_is_compared_with_the_stored_interval(
    reproduce: Any, value: float, interval: tuple[float, float] | None, expected: str
) -> None:
    record = kept("a", "error", 0.5, interval=(0.4, 0.6))
    assert reproduce.verdict(record, value, interval, (0.4, 0.6)) == expected


def test_another_training_may_differ_as_the_stored_seeds_do(reproduce: Any) -> None:
    record = kept("a", "error", 0.5, interval=(0.4, 0.6))
    others = [kept("a", "error", 0.8, 1, interval=(0.7, 0.9)), kept("b", "error", 2.0, 2)]
    spans = reproduce.spans([reproduce.StoredRun("a", (record, *others))])
    assert [*spans.values()] == [(0.4, 0.9), (2.0, 2.0)]
    assert reproduce.verdict(record, 0.65, None, (0.4, 0.9)) == "within the seeds"


class JobsHere(Jobs):
    """Runs commands in this process; tests/bin/test_sweep.py has the processes."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        for job in jobs:
            self._started(job)
            for command in job.commands:
                module = importlib.import_module(command.program[-1])
                assert module.main(list(command.arguments)) == 0
            names = tuple(command.name for command in job.commands)
            yield Outcome(job, 0, names, seconds=1.0, stopped=False)


@pytest.mark.usefixtures("eager")
def test_a_run_is_trained_again_once_and_compared(
    tmp_path: Path,
    reproduce: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reproduce, "Jobs", JobsHere)
    records = [
        kept("tiny", "length_4/accuracy", 0.1, interval=(0.0, 1.0)),
        kept("tiny", "length_4/seq_accuracy", 0.9, interval=(0.8, 1.0)),
    ]
    keep_records(tmp_path / "results" / "x.jsonl", records)
    flags = [f"--results={tmp_path}/results", "--rows=tiny", "--parallel=1"]
    flags += [f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}/tmp"]
    assert reproduce.main(flags) == 1
    out = capsys.readouterr().out
    assert f"tiny/{PROBLEM}-ut_algorithmic-seed0: begun, about 2 min left" in out
    told = json.loads(out.splitlines()[-1])
    assert told == {"figures": {"within": 1, "apart": 1}, "failed": []}
    assert reproduce.main(flags) == 1
    assert "begun" not in capsys.readouterr().out
