"""A run on another problem's data: the same texts give the same errors, whatever ids the other
problem has for them.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.bin.tiny_runs import TINY, save
from tests.eager import eager_functions
from tests.problems.babi.archive import many_stories, write_archive
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
from ut_tf.evaluation import transfer
from ut_tf.evaluation.evaluator import measure_checkpoint
from ut_tf.evaluation.records import read_records
from ut_tf.evaluation.transfer import measure_transfer
from ut_tf.metrics.intervals import wilson
from ut_tf.run import Run

pytestmark = pytest.mark.usefixtures("eager")
# The last stories, which validate, are other ones.
STORIES = "".join(
    (
        f"1 Mary moved to the room{number % 4}.\n2 John left.\n"
        if number < 36
        else f"1 John left.\n2 Mary moved to the room{number % 4}.\n"
    )
    + "3 Where is"
    f" {'Mary' if number % 3 else 'John'}?\troom{number % 4}\t1\n"
    for number in range(40)
)
STRANGE = """1 Aardvarks dislike the spacious kitchen enormously in the morning.
2 John left.
3 Where is Mary?\troom1\t1
4 Where is John?\tzoo\t1
"""
# Words and answers before and between those of task 1 give task 2 other ids.
FILES = {f"en/qa{task}_x_{part}.txt": STORIES for task in (1, 2, 3) for part in ("train", "test")}
LONG = (
    "".join(f"{number} John left.\n" for number in range(1, 75)) + "75 Where is John?\troom1\t1\n"
)
FILES |= {"en/qa5_x_train.txt": STORIES, "en/qa5_x_test.txt": LONG + STORIES}
UNREADABLE = "1 John left.\n2 Xyzzy aardvarks?\troom1\t1\n"
FILES |= {"en/qa6_x_train.txt": STORIES, "en/qa6_x_test.txt": UNREADABLE + STORIES}
FILES |= {"en/qa2_x_train.txt": STORIES + many_stories(9) + STRANGE, "en/qa3_x_test.txt": STRANGE}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of task 1 with random weights."""
    folder = tmp_path_factory.mktemp("run")
    write_archive(folder, FILES)
    made = Run.create(
        "babi_qa_task1_1k",
        "ut_babi",
        f"{TINY},dtype_policy=float32",
        output_dir=folder / "run",
        data_dir=folder / "data",
        tmp_dir=folder,
    )
    save(made, (100,), {"error": 50.0, "loss": 1.5})
    return made


@pytest.fixture(scope="module")
def own(run: Run) -> Any:
    """What the run's own problem says of it."""
    with eager_functions():
        return measure_checkpoint(run)


@pytest.mark.slow
def test_the_same_texts_give_the_same_errors(
    run: Run, own: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 < own.metrics["error"] < 100
    found = measure_transfer(run, "babi_qa_task2_1k")
    assert set(found.metrics) == {"error", "error/2"}
    assert found.metrics["error"] == found.metrics["error/2"] == pytest.approx(own.metrics["error"])
    assert found.examples == {"": 40}
    assert (found.step, found.split, found.parameters, found.data_note) == (
        100,
        "test",
        own.parameters,
        "other archive",
    )
    # The checkpoint is chosen on the run's own problem, whatever it is judged on.
    assert found.selection == own.selection
    assert found.selection == {"metric": "error", "direction": "min", "value": 50.0, "loss": 1.5}
    low, high = wilson(round(own.metrics["error"] / 100 * 40), 40)
    assert found.intervals["error"] == pytest.approx((100 * low, 100 * high))
    assert "warning: babi_qa" not in capsys.readouterr().err


def test_the_command_tells_the_errors_by_task_and_names_what_the_run_does_not_know(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        *(f"--output_dir={run.output_dir}", "--test_problem=babi_qa"),
        *("--test_problem_args=tasks=1+3,size=1k", f"--data_dir={run.data_dir}"),
        f"--tmp_dir={run.tmp_dir}",
    ]
    assert eval_command.main(flags) == 0
    printed = capsys.readouterr()
    metrics = json.loads(printed.out)
    assert set(metrics) == {"error", "error/1", "error/3"}
    assert metrics["error"] * 42 == pytest.approx(metrics["error/1"] * 40 + metrics["error/3"] * 2)
    assert "evaluated on babi_qa tasks=1+3,size=1k" in printed.err
    record = read_records(run.output_dir)[-1]
    assert (record.problem, record.test_problem, record.metrics) == (
        run.problem,
        "babi_qa tasks=1+3,size=1k",
        metrics,
    )
    assert record.examples == {"": 42}
    warnings = [
        line for line in printed.err.splitlines() if line.startswith("warning: babi_qa has")
    ]
    words = "aardvarks, dislike, enormously, in, kitchen and 2 more"
    assert len(warnings) == 3
    assert f"lacks, read as unknown: {words}" in warnings[0]
    assert warnings[1] == (
        f"warning: babi_qa has 1 answers that {run.output_dir} cannot give, in 1 examples: zoo."
    )
    assert "not read whole: the first one has a sentence of more than 5 words" in warnings[2]


@pytest.mark.slow
def test_stories_that_are_cut_are_told_of(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    measure_transfer(run, "babi_qa_task5_1k")
    assert "facts: those before the last 70 are left out" in capsys.readouterr().err


@pytest.mark.slow
def test_what_the_run_cannot_read_counts_as_wrong(
    run: Run, own: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = own.metrics["error"] / 100 * 40
    found = measure_transfer(run, "babi_qa_task6_1k")
    assert found.examples == {"": 41}
    assert found.metrics["error"] == pytest.approx(100 * (wrong + 1) / 41)
    assert found.metrics["error/6"] == found.metrics["error"]
    told = "1 example that the run cannot read counts as wrong"
    assert found.data_note == f"other archive; {told}"
    reason = "the question has no word that the model knows (xyzzy, aardvarks)"
    assert f"warning: {told}, the first one since {reason}.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "split", "message"),
    [
        ("babi_qa_task1_1k", "train", "test or validation is judged|validation or test is judged"),
        ("algorithmic_copy_decimal40", None, "has no text pairs"),
        ("babi_qa_task4_1k", None, "no file en/qa4"),
        ("babi_qa_task", None, "babi_qa_task"),
    ],
)
def test_what_cannot_be_judged_is_refused(
    run: Run, problem: str, split: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        measure_transfer(run, problem, split=split)


def test_what_the_run_cannot_do_is_told_before_data_is_fetched(run: Run) -> None:
    assert run.spec is not None
    model = dataclasses.replace(
        run, spec=dataclasses.replace(run.spec, inputs="none", targets="tokens")
    )
    with pytest.raises(UserError, match="is a language model, which answers no texts"):
        measure_transfer(model, "babi_qa_task4_1k")


def test_a_run_directory_does_not_say_where_the_other_data_is_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(other: Any, data_dir: Path, tmp_dir: Path) -> None:
        del other
        raise UserError(f"{data_dir} and {tmp_dir}")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("UT_TF_DATA_DIR", raising=False)
    monkeypatch.setattr(transfer, "prepare_data", refuse)
    cache = tmp_path / ".cache" / "ut_tf"
    with pytest.raises(UserError, match=f"^{cache / 'data'} and {cache / 'downloads'}$"):
        measure_transfer(Run.load(run.output_dir), "babi_qa_task4_1k")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--test_problem_args=size=1k"], "needs a --test_problem"),
        (["--test_problem=babi_qa", "--lengths=40"], "leave one flag out"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert eval_command.main(["--output_dir=nowhere", *flags]) == 2
    assert message in capsys.readouterr().err
