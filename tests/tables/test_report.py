"""ut-report: formats, chosen tables, mistakes, and the paper's tables themselves."""

from __future__ import annotations

import csv
import io
import json
import statistics
import subprocess
import sys
from fnmatch import filter as matching

import pytest

from tests.bin.stub_runs import evaluate, stub_run
from tests.tables.finished_runs import finished_run
from tests.tables.report_rows import at_400, ours
from ut_tf.bin import report
from ut_tf.problems.catalogue import PROBLEMS
from ut_tf.tables.layout_files import paper_tables

COPY = "algorithmic_copy_decimal40"
ADDITION = "algorithmic_addition_decimal40"


def test_the_three_formats_say_the_same(run_report, runs, tmp_path):
    for seed, value in enumerate([0.25, 0.75]):
        evaluate(
            stub_run(runs / str(seed), COPY, "ut_algorithmic", seed),
            at_400(value, 0.5),
            value,
            "max",
        )
    evaluate(
        stub_run(runs / "x", ADDITION, "transformer_tiny"),
        at_400(float("nan"), 0.5) | {"length_400/char_acc": 0.5},
        None,
    )
    table = json.loads(run_report("--format=json"))["tables"][0]
    (copy,) = [row["cells"]["copy"] for row in table["rows"] if "copy" in row["cells"]]
    assert copy["best"] == {"char_acc": 0.75, "seq_acc": 0.5}
    assert copy["mean"]["char_acc"] == 0.5
    assert copy["deviation"]["char_acc"] == pytest.approx(statistics.stdev([0.25, 0.75]))
    assert table["published"][2]["cells"]["addition"] == {
        "text": ".34/.02",
        "values": {"char_acc": 0.34, "seq_acc": 0.02},
    }
    lines = list(csv.DictReader(io.StringIO(run_report("--format=csv"))))
    found = {
        (line["column"], line["measure"], line["statistic"]): line["value"]
        for line in lines
        if line["source"] == "ut_algorithmic"
    }
    assert float(found["copy", "char_acc", "best"]) == 0.75
    assert float(found["copy", "char_acc", "mean"]) == 0.5
    assert run_report(f"--output={tmp_path}/report.md") == ""
    assert (tmp_path / "report.md").read_text() == run_report()


def test_tables_that_are_asked_for_are_printed_alone_and_empty(run_report, runs):
    evaluate(stub_run(runs / "a", COPY, "ut_algorithmic"), at_400(0.5, 0.5))
    stub_run(runs / "b", "babi_qa")
    text = run_report("--tables=1,2")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Table 1. bAbI: mean error in % (failed tasks of 20)",
        "## Table 1a. bAbI: error in % by task",
        "## Table 1b. bAbI: ponder time, mean ± deviation over positions, by supporting facts",
        "## Table 2. Subject-verb agreement: accuracy by number of attractors",
        "## Not evaluated yet",
    ]
    assert "12.4 (11)" in text


def test_a_run_is_found_once_and_a_broken_one_is_told(runs, capsys):
    evaluate(stub_run(runs / "deep" / "a", COPY, "ut_algorithmic"), at_400(0.5, 0.5))
    (runs / "broken").mkdir()
    (runs / "broken" / "config.json").write_text("{")
    (runs / "foreign").mkdir()
    (runs / "foreign" / "config.json").write_text('{"name": "web server"}')
    assert report.main([str(runs), str(runs / "deep" / "a"), str(runs / "deep")]) == 0
    out, err = capsys.readouterr()
    assert [row[2] for row in ours(out)] == ["1"]
    assert f"{runs}/broken is left out: {runs}/broken/config.json cannot be read" in err
    assert report.main([str(runs / "broken")]) == 1
    assert "no run could be read" in capsys.readouterr().err
    assert f"{runs}/foreign/config.json is not of a run" in err


@pytest.mark.parametrize(
    ("flags", "status", "expected"),
    [
        (["/nonexistent"], 1, "/nonexistent is no folder"),
        (["{empty}"], 1, "holds no run, at any depth"),
        (["{runs}", "--format=cvs"], 2, "--format=cvs: expected one of markdown, csv, json"),
        (["{runs}", "--tables=9"], 1, "there is no table '9': the paper's tables are 1, 1a"),
        (["{runs}", "--output={runs}/a/config.json/x"], 1, "cannot be written"),
    ],
)
def test_mistakes_are_told_in_a_line(runs, tmp_path, capsys, flags, status, expected):
    evaluate(stub_run(runs / "a", COPY, "ut_algorithmic"), at_400(0.5, 0.5))
    (tmp_path / "empty").mkdir()
    assert (
        report.main([flag.format(runs=runs, empty=tmp_path / "empty") for flag in flags]) == status
    )
    assert expected in capsys.readouterr().err


def test_a_run_that_a_sweep_stopped_is_no_result(run_report, runs):
    finished_run(runs / "good", COPY, at_400(0.5, 0.5), hparams_set="ut_algorithmic")
    stopped = finished_run(
        runs / "stopped",
        COPY,
        at_400(0.9, 0.9),
        hparams_set="ut_algorithmic",
        seed=1,
        ended="hopeless",
    )
    text = run_report()
    assert [row[2] for row in ours(text)] == ["1"]
    assert f"{stopped} was stopped early by ut-sweep and is no result." in text


def test_tensorflow_is_not_imported(runs):
    evaluate(stub_run(runs / "a", COPY, "ut_algorithmic"), at_400(0.5, 0.5))
    code = (
        f"import sys; from ut_tf.bin.report import main; main([{str(runs)!r}]);"
        " sys.exit('tensorflow' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


def test_the_paper_s_rows_fit_their_columns_and_the_problems_exist():
    for table in paper_tables().tables:
        assert all(len(row.cells) == len(table.figures) for row in table.published), table.name
        for source in (source for column in table.figures for source in column.sources):
            for problem in source.problems:
                assert matching(PROBLEMS, problem), problem
    assert {table.name for table in paper_tables().tables} >= {"1", "2", "3", "4", "5", "6", "7"}


def test_the_paper_s_errors_by_task_have_the_means_of_its_table_1():
    first, by_task = paper_tables().tables[:2]
    (means,) = [
        row.cells
        for row in first.published
        if (row.model, row.seeds) == ("UT, dynamic halting", "best of 10")
    ]
    for row, mean in zip(by_task.published, means, strict=True):
        errors = [float(cell) for cell in row.cells]
        assert statistics.fmean(errors) == pytest.approx(float(mean.split()[0]), abs=0.01)
        assert sum(error > 5 for error in errors) == int(mean.split("(")[1].rstrip(")"))
