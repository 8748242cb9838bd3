"""Tables and pages from records: best by validation, means, failed tasks, marks, and mistakes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from ut_tf.bin import report
from ut_tf.config.hparams import differences
from ut_tf.errors import UserError
from ut_tf.factories import make_hparams
from ut_tf.tables.html import records_page
from ut_tf.tables.kept_tables import KeptTables, written_anew
from ut_tf.tables.layout import Column, Table, Total
from ut_tf.tables.layout_files import read_tables
from ut_tf.tables.overlaps import EXCHANGES, Overlap, read_overlaps
from ut_tf.tables.record import ResultRecord, keep_records, read_records
from ut_tf.tables.rendered import as_markdown, render

SINGLE = Table(
    "babi",
    lines=("task", "set"),
    figures=(Column("error", ("error",), digits=(1,)),),
    task=r"babi_qa_task(\d+)_10k",
    total=Total(tasks=20, failed_above=5.0, paper={"UT": "0.23 (0)"}),
)


def error(task: int, value: float, validation: float | None, seed: int = 0, **more: Any) -> Any:
    selection = None
    if validation is not None:
        selection = {"metric": "error", "direction": "min", "value": validation}
    values: dict[str, Any] = {"hparams_set": "ut_babi", "paper": "0", "minutes": 1.0, **more}
    return ResultRecord(
        table="babi",
        row="UT",
        metric="error",
        value=value,
        problem=f"babi_qa_task{task}_10k",
        version="0.5.0",
        seed=seed,
        selection=selection,
        **values,
    )


def test_the_best_seed_is_validation_s_and_failed_tasks_are_counted() -> None:
    records = [
        error(10, 0.0, 0.0),
        # The best by validation is not the best on the test data.
        error(2, 9.0, 1.0, seed=0),
        error(2, 1.0, 2.0, seed=1, minutes=3.0),
        # Of two sets the one that validation ranks first stands for the task.
        error(16, 50.0, 40.0),
        error(16, 6.0, 7.0, hparams_set="ut_babi_induction"),
    ]
    text = as_markdown(render(SINGLE, records))
    assert [line.split(" | ")[0] for line in text.splitlines()] == [
        "| task",
        "| ---",
        "| 2",
        "| 10",
        "| 16",
        "| 16",
        "| **3 of 20**",
    ]
    assert "| 2 | `ut_babi` | 2 | 1.0 to 3.0 | 9.0 | 5.0 ± 5.7 | 0 |" in text
    assert "| 16 | `ut_babi_induction` | 1 | 1.0 | 6.0 |  | 0 |" in text
    # (0 + 9 + 6) / 3 and, over the seeds, (0 + 5 + 6) / 3.
    assert "| **5.00** (2 failed) | **3.67** (1 failed) | 0.23 (0) |" in text


def test_runs_of_a_set_and_of_its_changes_before_it_had_a_name_are_seeds_of_one_line() -> None:
    table = dataclasses.replace(
        SINGLE, same_sets={"ut_babi, dropout=0.3": "ut_babi_dropout"}, total=None
    )
    older = error(2, 1.0, 1.0, overrides="dropout=0.3,eval_frequency=50", used_with="beam_size=8")
    newer = error(
        2, 3.0, 2.0, seed=1, hparams_set="ut_babi_dropout", overrides="", used_with="beam_size=8"
    )
    text = as_markdown(render(table, [table.with_todays_set(item) for item in (older, newer)]))
    assert "| 2 | `ut_babi_dropout, used with beam_size=8` | 2 |" in text
    assert "2.0 ± 1.4" in text


def test_runs_of_another_length_or_warm_start_are_no_seeds_of_a_line() -> None:
    records = [
        error(2, 1.0, 2.0),
        error(2, 9.0, 3.0, seed=1, train_steps=50),
        error(2, 5.0, 4.0, seed=1, warm_start="base"),
    ]
    text = as_markdown(render(SINGLE, records))
    assert "| 2 | `ut_babi` | 1.0 | 1.0 | 0 |" in text
    assert "| 2† | `ut_babi` | 1.0 | 9.0 | 0 |" in text
    assert "† trained for 50 updates" in text
    assert "‡ warm start from base" in text
    # All of the same length: nothing tells them apart.
    alike = render(SINGLE, [error(2, 1.0, 2.0, train_steps=50), error(3, 2.0, 2.0, train_steps=50)])
    assert alike.below == []


def test_cells_of_two_figures_need_both_and_show_the_interval_of_the_last() -> None:
    figure = Column("400", ("length_400/char_acc", "length_400/seq_acc"), digits=(3,))
    table = Table(
        "lengths", lines=("task", "seed"), figures=(figure,), task=r"algorithmic_(\w+)_decimal40"
    )
    both = {
        "table": "lengths",
        "row": "UT",
        "problem": "algorithmic_copy_decimal40",
        "hparams_set": "ut_length_generalization",
        "version": "0.4.0",
        "note": "trained for 10 minutes",
    }
    records = [
        ResultRecord(metric="length_400/char_acc", value=0.9, **both),
        ResultRecord(metric="length_400/seq_acc", value=0.5, interval=(0.4, 0.6), **both),
        ResultRecord(metric="length_400/char_acc", value=0.8, **{**both, "seed": 1}),
    ]
    rendered = render(table, records)
    assert as_markdown(rendered).splitlines()[2:] == [
        "| copy† | 0 |  | 0.900 / 0.500 [0.400, 0.600] |",
        "| copy† | 1 |  |  |",
        "",
        "† trained for 10 minutes",
    ]
    assert "<td>copy†</td>" in records_page([rendered], Path())


def test_a_page_is_written_anew_between_its_markers_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "babi.jsonl", tmp_path / "page.md"
    keep_records(file, [error(2, 1.0, 2.0)])
    page.write_text("# Errors\n\n<!-- table: babi -->\nold\n<!-- end -->\n\nProse of ours.\n")
    assert report.main([str(file), f"--page={page}"]) == 0
    text = page.read_text()
    assert text.startswith("# Errors\n\n<!-- table: babi -->\n\n| problem | system |")
    assert "| `babi_qa_task2_10k` | UT | `ut_babi` | 1.0 | 1.000 | 0 |\n\n<!-- end -->" in text
    assert text.endswith("\n\nProse of ours.\n")
    assert report.main([str(file), f"--page={page}"]) == 0
    assert page.read_text() == text
    forgotten = "<!-- table: babi -->\n\nProse.\n\n"
    for rest in ("<!-- table: babi -->\n<!-- end -->\n", ""):
        page.write_text(f"# Errors\n{forgotten}{rest}")
        assert report.main([str(file), f"--page={page}"]) == 1
        assert f"{page}:2: the table 'babi' has no end" in capsys.readouterr().err
        assert page.read_text() == f"# Errors\n{forgotten}{rest}"
    page.write_bytes(b"\xff")
    assert report.main([str(file), f"--page={page}"]) == 1
    assert f"--page={page} is no text in UTF-8" in capsys.readouterr().err
    page.write_text("<!-- table: bbi -->\n<!-- end -->\n")
    assert report.main([str(file), f"--page={page}"]) == 1
    assert "no record is of a table 'bbi'; did you mean babi?" in capsys.readouterr().err


def test_a_page_of_html_shows_each_run(tmp_path: Path) -> None:
    file, page = tmp_path / "results" / "babi.jsonl", tmp_path / "page.html"
    command = "ut-trainer --problem=a --hparams='b<c'"
    keep_records(file, [error(2, 1.0, 2.0, command=command, curve="curves/a b.csv")])
    assert report.main([str(file), "--format=html", f"--output={page}"]) == 0
    text = page.read_text()
    assert "<code>ut-trainer --problem=a --hparams=&#x27;b&lt;c&#x27;</code>" in text
    assert '<a href="results/curves/a%20b.csv">learning curve</a>' in text
    assert "chosen by error 2 on validation data" in text


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("t: {figurs: []}", r"t: unknown 'figurs'; did you mean figures\?"),
        ("t: {lines: [tsk]}", r"lines cannot have 'tsk'; did you mean task\?"),
        ("t: {figures: [{title: a}]}", "has no 'metrics'"),
        ("t: 3", "t is 3: expected names with values"),
        ("t: {figures: [{metrics: a, digits: b}]}", "figures, digits is 'b'"),
        ("t: {figures: [{metrics: a, each: 3}]}", "each is 3: expected a list"),
        ("t: {figures: [{metrics: a, sources: b}]}", "unknown 'sources'"),
        ("[1", "cannot be read"),
        ("t: {facts: [minutes]}\nt: {}", 'cannot be read .the key "t" stands twice'),
    ],
)
def test_mistakes_in_a_layout_name_their_place(tmp_path: Path, layout: str, expected: str) -> None:
    (tmp_path / "tables.yaml").write_text(layout)
    with pytest.raises(UserError, match=expected):
        read_tables(tmp_path)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["a.jsonl", "runs"], "runs and a.jsonl: give run directories, or files of records"),
        (["a.jsonl", "--record=b.jsonl"], "--record needs run directories"),
        (["runs", "--record=b.jsonl"], "--record needs --table"),
        (["runs", "--page=x.md"], "--page needs files of records"),
        (["a.jsonl", "--page=x.md", "--tables=t"], "--tables does not go with --page"),
        (["a.jsonl", "--page=x.md", "--output=y.md"], "--output does not go with --page"),
    ],
)
def test_flags_that_do_not_go_together(
    flags: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main(flags) == 2
    assert expected in capsys.readouterr().err


ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "results.md",
    *sorted((ROOT / "docs" / "results").glob("*.md")),
]


@pytest.fixture(scope="module")
def kept() -> KeptTables:
    return KeptTables.read(sorted((ROOT / "results").glob("*.jsonl")))


@pytest.mark.slow
def test_sets_that_stand_for_others_are_the_same(kept: KeptTables) -> None:
    renamed = [
        (record, kept.layouts[record.table].same_sets[record.trained_recipe])
        for record in read_records(sorted((ROOT / "results").glob("*.jsonl")))
        if record.table in kept.layouts
        and record.trained_recipe in kept.layouts[record.table].same_sets
    ]
    assert {todays for _, todays in renamed} == {
        todays for layout in kept.layouts.values() for todays in layout.same_sets.values()
    }
    for record, todays in renamed:
        then = make_hparams(record.hparams_set, record.overrides)
        how_often = frozenset({"eval_frequency", "keep_checkpoint_max"})
        assert not differences(then, make_hparams(todays), ignored=how_often), todays


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_the_records_say(page: Path, kept: KeptTables) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == written_anew(text, page.name, kept), "run make results"


def test_every_table_of_records_is_on_a_page(kept: KeptTables) -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    sources = {kept.layouts[name].source for name in kept.layouts if f": {name} -->" in shown}
    assert {record.table for record in kept.records} <= sources


def test_records_say_what_their_command_does_and_name_what_is_beside_them(kept: KeptTables) -> None:
    for record in kept.records:
        updates = re.search(r"--train_steps=(\d+)", record.command or "")
        assert record.train_steps == (int(updates[1]) if updates else None)
        assert record.curve is None or (ROOT / "results" / record.curve).is_file()
        assert "/tmp" not in record.to_json() and "/home" not in record.to_json()


RESULTS = Path(__file__).resolve().parents[2] / "results"
ERROR = Column("error", ("error",), digits=(1,))


def error_of(
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
    plain, some, every = (
        error_of(17, 40.0),
        error_of(17, 18.9, exchange_words=True),
        error_of(4, 0.0),
    )
    counted = [exchanges(some, test={17: (273, 1000)}), exchanges(every, test={4: (1000, 1000)})]
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
    measured = error_of(17, 18.9, others=25.4, exchange_words=True)
    text = as_markdown(render(table, [measured], {overlap.key: overlap for overlap in counted}))
    assert text.endswith("| 18.9 | 273 of 1,000 | 25.4 |")


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
