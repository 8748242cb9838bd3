"""Test questions that are known from training, as tables say it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.tables.kept_text import as_markdown, render, render_summary
from ut_tf.tables.layout import Column, SummaryLine, Table
from ut_tf.tables.overlaps import EXCHANGES, SIMULATED, Overlap, read_overlaps
from ut_tf.tables.record import ResultRecord, read_records

RESULTS = Path(__file__).resolve().parents[2] / "results"
ERROR = Column("error", ("error",), digits=(1,))


def error(
    task: int, value: float, others: float | None = None, **arguments: object
) -> ResultRecord:
    return ResultRecord(
        table="babi",
        row="UT",
        metric="error",
        value=value,
        problem=f"babi_qa_task{task}_1k",
        problem_args=arguments,
        hparams_set="ut_babi",
        version="0.5.0",
        others=others,
    )


def exchanges(record: ResultRecord, **known: dict[int, tuple[int, int]]) -> Overlap:
    return Overlap.of(record, EXCHANGES, known)


def test_columns_have_the_known_questions_and_the_error_on_the_others_or_its_bound() -> None:
    plain, some, every = error(17, 40.0), error(17, 18.9, exchange_words=True), error(4, 0.0)
    counted = [
        exchanges(some, test={17: (273, 1000)}),
        exchanges(every, test={4: (1000, 1000)}),
    ]
    table = Table("babi", lines=("problem",), facts=(), figures=(ERROR,), others="error")
    text = as_markdown(
        render(table, [plain, some, every], {overlap.key: overlap for overlap in counted})
    )
    lines = [line.split(" | ")[1:] for line in text.splitlines()]
    assert lines[0] == ["error", "known test questions", "error on the others |"]
    # 189 mistakes among 727 questions are 25.997 %; of task 4 no other question is left.
    assert lines[2:] == [
        ["0.0", "1,000 of 1,000", " |"],
        ["40.0", "", " |"],
        ["18.9", "273 of 1,000", "at most 26.0 |"],
    ]
    none = exchanges(some, test={17: (0, 1000)})
    text = as_markdown(render(table, [some], {none.key: none}))
    assert text.endswith("| 18.9 | 0 of 1,000 | 18.9 |")
    measured = error(17, 18.9, others=25.4, exchange_words=True)
    text = as_markdown(render(table, [measured], {overlap.key: overlap for overlap in counted}))
    assert text.endswith("| 18.9 | 273 of 1,000 | 25.4 |")


def test_other_questions_of_several_tasks_are_counted_together() -> None:
    record = error(17, 5.0, exchange_words=True)
    overlap = exchanges(record, test={1: (900, 1000), 2: (0, 1000)})
    table = Table("babi", lines=("problem",), facts=(), figures=(ERROR,), others="error")
    header, _, line = as_markdown(render(table, [record], {overlap.key: overlap})).splitlines()[:3]
    # 100 mistakes among 1,100 questions. Were they in task 1, the mean over both would be 50 %.
    assert header.endswith("| known test questions | error on the others together |")
    assert line.endswith("| 900 of 2,000 | at most 9.1 |")


def test_without_columns_a_note_counts_them_by_task() -> None:
    record = error(17, 18.9, simulated_tasks=17)
    overlap = Overlap.of(
        record,
        SIMULATED,
        {"test": {3: (0, 1000), 17: (114, 1000)}, "validation": {3: (0, 195), 17: (189, 1000)}},
    )
    table = Table("babi", lines=("problem",), facts=(), figures=(ERROR,))
    text = as_markdown(render(table, [record], {overlap.key: overlap}))
    assert text.splitlines()[-1] == (
        "† 114 of 2,000 test questions (114 in task 17) and 189 of 1,195 questions for validation"
        " (189 in task 17) are among the simulated training stories; the error on the others was"
        " not measured"
    )
    shown = render_summary(
        Table("summary", summary=(SummaryLine("task 17", "babi", ERROR),)),
        {"babi": table},
        [record],
        {overlap.key: overlap},
    )
    assert shown.rows[0][3] == (
        "error 18.9; 114 of 2,000 test questions are among the simulated training stories"
    )


def test_of_every_figure_with_exchanged_words_or_simulated_stories_the_overlap_is_kept() -> None:
    overlaps = read_overlaps(RESULTS)
    for record in read_records([RESULTS / "babi.jsonl"]):
        judged = record.test_problem or record.problem
        is_other = record.problem.startswith("babi_sim") or {
            "exchange_words",
            "simulated_tasks",
        } & {*record.problem_args}
        if is_other and judged.startswith("babi_qa"):
            assert Overlap.key_of(record) in overlaps, "run benchmarks/overlap.py"


@pytest.mark.parametrize("text", ["{", "[1]", '[{"known": {}}]', "7", "[" * 9999])
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "overlap.json").write_text(text)
    with pytest.raises(UserError, match=r"overlap\.json cannot be read"):
        read_overlaps(tmp_path)


def test_an_overlap_is_read_as_it_was_written(tmp_path: Path) -> None:
    overlap = exchanges(error(4, 0.0, exchange_words=True), test={4: (1000, 1000)})
    (tmp_path / "overlap.json").write_text(json.dumps([overlap.to_json()]))
    assert read_overlaps(tmp_path) == {overlap.key: overlap}
