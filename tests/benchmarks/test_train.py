"""The benchmarks, run small."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.problems.babi.archive import write_archive
from ut_tf.problems.babi.simulator.tasks import simulate_lines
from ut_tf.tables.overlaps import EXCHANGES, SIMULATED
from ut_tf.tables.record import ResultRecord

pytestmark = pytest.mark.slow


@pytest.fixture
def benchmark(script: Callable[[str], Any]) -> Any:
    return script("train")


@pytest.mark.usefixtures("eager")
def test_command_prints_a_table_and_json(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "hidden_size=8,filter_size=8,num_heads=2,num_steps=2,batch_size=64"
    arguments = [
        *(f"--hparams={small}", "--seconds=0", "--rounds=1", "--warmup_steps=1"),
        *("--peak_repetitions=0", "--dtype_policies=float32"),
    ]
    arguments += ["--intra_op_threads=0", "--inter_op_threads=0"]
    assert benchmark.main([*arguments, f"--data_dir={tmp_path}", f"--tmp_dir={tmp_path}"]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["float32"]["steps"] == 1 and last["float32"]["steps_per_second"] > 0
    assert isinstance(last["flags"], list) and not last["peak_gflop_per_second"]


def record(problem: str, arguments: dict[str, Any], **more: Any) -> ResultRecord:
    return ResultRecord(
        table="babi",
        row="UT",
        metric="error",
        value=0.0,
        problem=problem,
        problem_args=arguments,
        hparams_set="ut_babi",
        version="0.5.0",
        **more,
    )


def test_questions_are_known_by_exchange_or_stand_among_simulated_stories(
    script: Callable[[str], Any], tmp_path: Path
) -> None:
    # The archive's test is what the simulator draws first; its training is another story.
    lines = "\n".join(simulate_lines(17, 40)) + "\n"
    other = "1 The red square is below the pink triangle.\n" + (
        "2 Is the red square above the pink triangle?\tno\t1\n"
    )
    write_archive(
        tmp_path, {"en/qa17_x_train.txt": other * 20, "en/qa17_x_test.txt": lines + other}
    )
    simulated = {"simulated_tasks": [17], "simulated_questions": 40}
    records = [
        record("babi_qa_task17_1k", {}),
        record("babi_qa_task17_1k", simulated, data_version=1),
        record("babi_qa_task17_1k", simulated, data_version=2),
        record("babi_qa_task17_1k", {"exchange_words": True}, data_version=1),
        record("babi_sim_task17", {"train_questions": 100}, test_problem="babi_qa_task17_1k"),
        record("sudoku_4x4", {}),
    ]
    former, later, exchanged, *_ = found = script("overlap").overlaps(records, tmp_path)
    assert [one.what for one in found[:3]] == [SIMULATED, SIMULATED, EXCHANGES]
    assert former.known == {"test": {17: (40, 41)}, "validation": {17: (0, 2)}}
    # What is held out is left out of simulated stories of new data.
    assert later.known["test"] == {17: (0, 41)}
    assert exchanged.total == (1, 41)
