"""ut-report: formats, chosen tables, mistakes, and the paper's tables themselves."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
import subprocess
import sys
from fnmatch import filter as matching
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.bin.stub_runs import evaluate, stub_run
from tests.tables.finished_runs import finished_run
from tests.tables.report_rows import at_400, ours
from ut_tf.bin import report
from ut_tf.metrics.sums import Group
from ut_tf.problems.catalogue import PROBLEMS
from ut_tf.tables.evaluation_table import figure, metrics_table
from ut_tf.tables.layout_files import paper_tables

COPY = "algorithmic_copy_decimal40"
ADDITION = "algorithmic_addition_decimal40"
SETTINGS = ("10k single", "10k joint", "1k single", "1k joint")


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
        *(f"## Table 1a {setting}. bAbI: error in % by task" for setting in SETTINGS),
        *(
            f"## Table 1b {setting}. bAbI: ponder time, mean ± deviation over positions, by"
            " supporting facts"
            for setting in SETTINGS
        ),
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
        (["{runs}", "--tables=chomsk"], 1, "no table 'chomsk'; did you mean chomsky?"),
        (["{runs}", "--tables=chomsky,c"], 1, "there is no table 'c'"),
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
    first, *by_task = paper_tables().tables[:5]
    (means,) = [
        row.cells
        for row in first.published
        if (row.model, row.seeds) == ("UT, dynamic halting", "best of 10")
    ]
    for table, mean in zip(by_task, means, strict=True):
        (row,) = table.published
        errors = [float(cell) for cell in row.cells]
        assert statistics.fmean(errors) == pytest.approx(float(mean.split()[0]), abs=0.01)
        assert sum(error > 5 for error in errors) == int(mean.split("(")[1].rstrip(")"))


SCRIPT = "</script><script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
LINK = r"![x](http://x.example/a)\[y](javascript:alert(1))[z\](javascript:alert(1))"
ORDER = "\x1b]0;owned\x07\x1b[2J"
HARMLESS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th", "td"}
HARMLESS |= {"a", "p", "ul", "li", "code", "figure", "svg", "g", "path", "defs", "use", "clippath"}
HARMLESS |= {"rect", "metadata", "rdf:rdf", "cc:work", "dc:type", "dc:date", "dc:format", "text"}
HARMLESS |= {"dc:creator", "cc:agent", "dc:title", "details", "summary", "br", "section"}


class Markup(HTMLParser):
    """The elements of a page, and what its links lead to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.orders: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.orders += [name for name, _ in attrs if name.startswith("on")]


@pytest.fixture
def hostile(runs):
    """Runs with markup in their folders, sets, problems and models."""
    names = ["javascript:alert(1)", IMAGE.replace("/", ""), "<script>alert(1)<", f"a{ORDER}b"]
    for seed, name in enumerate(names):
        evaluate(stub_run(runs / name, COPY, "ut_algorithmic", seed), {"char_acc": 0.5}, 0.5)
    for number, text in enumerate((SCRIPT, IMAGE, LINK, f"a|b\n# c{ORDER}")):
        for problem in (COPY, "unknown"):
            folder = stub_run(runs / f"{problem}{number}", COPY, "ut_algorithmic")
            evaluate(folder, {text: 0.5, "length_400/char_acc": 0.5}, 0.5)
            path = folder / "config.json"
            config = json.loads(path.read_text())
            changes = {"hparams_set": text, "overrides": f"dropout=0.1,{text}"}
            changes["problem"] = text if problem == "unknown" else COPY
            path.write_text(json.dumps({**config, **changes}))
    stub_run(runs / f"not evaluated {IMAGE.replace('/', '')}", COPY, "ut_algorithmic", 9)
    return runs


@pytest.mark.usefixtures("hostile")
def test_a_page_of_html_has_no_element_of_a_name(run_report):
    html = run_report("--format=html")
    markup = Markup(html)
    assert markup.tags <= HARMLESS
    assert markup.orders == []
    assert not any(link.lower().startswith(("javascript:", "data:")) for link in markup.links)
    assert "alert(1)" in html


@pytest.mark.usefixtures("hostile")
def test_markdown_has_neither_elements_nor_further_cells_nor_orders(run_report):
    text = run_report()
    assert "alert(1)" in text
    # What is indented is code, in which nothing is an element.
    prose = [line for line in text.splitlines() if not line.startswith("    ")]
    assert "<" not in "".join(prose)
    assert "![x]&#40;http" in "".join(prose)
    assert "](" not in "".join(prose)
    assert not any(ord(sign) < 32 and sign != "\n" for sign in text)
    assert "\n# c" not in text


def test_kept_results_have_no_element_of_a_name(tmp_path):
    file, page = tmp_path / "results.jsonl", tmp_path / "page.html"
    finished_run(tmp_path / "run", "babi_qa_task1_1k", {"error": 1.0})
    assert report.main([str(tmp_path / "run"), f"--record={file}", "--table=babi"]) == 0
    texts = {"row": IMAGE, "command": SCRIPT, "evaluation": SCRIPT, "curve": "javascript:alert(1)"}
    texts |= {"version": IMAGE, "commit": SCRIPT, "hparams_set": f"{IMAGE}{LINK}"}
    line = {**json.loads(file.read_text()), **texts}
    file.write_text(json.dumps(line) + "\n")
    assert report.main([str(file), "--format=html", f"--output={page}"]) == 0
    markup = Markup(page.read_text())
    assert markup.tags <= HARMLESS
    assert markup.orders == []
    assert all(":" not in link for link in markup.links)
    assert report.main([str(file), f"--output={tmp_path / 'page.md'}"]) == 0
    text = (tmp_path / "page.md").read_text()
    assert "<" not in text
    assert "](" not in text


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (7.43333, (6.548, 8.427), "7.4 [6.5, 8.4]"),
        (2.43715, (2.431, 2.444), "2.437 [2.431, 2.444]"),
        (15210.4, (13480.2, 17160.9), "15210 [13480, 17161]"),
        (1.0, (1.0, 1.0), "1 [1, 1]"),
        (0.123456, None, "0.1235"),
        (4.0, None, "4"),
        (math.nan, (0.0, 1.0), "-"),
        (2.0, (1.0, math.inf), "2"),
    ],
)
def test_a_figure_has_the_digits_that_its_interval_supports(value, interval, expected):
    assert figure(value, interval) == expected


STORY_METRICS = {
    "loss": 0.2,
    "error": 5.0,
    "ponder_time": 2.5,
    "ponder_time/question": 5.0,
    "error/2": 10.0,
    "ponder_time/2": 2.75,
    "error/10": 0.0,
    "ponder_time/10": 2.25,
    "ponder_time/supporting_facts_1": 2.25,
    "ponder_time/question/supporting_facts_1": 4.5,
    "ponder_time/supporting_facts_2": 2.75,
    "ponder_time/question/supporting_facts_2": 5.5,
    "mean_error": 5.0,
}
STORY_GROUPS = {
    "2": Group("task", "2", 50),
    "10": Group("task", "10", 50),
    "supporting_facts_1": Group("supporting_facts", "1", 50),
    "supporting_facts_2": Group("supporting_facts", "2", 50),
}


def lines(table: str) -> list[list[str]]:
    """The cells of each line; two blanks or more part them."""
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in table.splitlines()
    ]


def test_groups_are_columns_and_nothing_stands_twice():
    table = metrics_table(
        STORY_METRICS, {"error": (2.0, 11.0)}, {"": 100}, STORY_GROUPS, ("error",)
    )
    assert lines(table) == [
        ["all", "task 2", "task 10"],
        ["2 supporting facts", "1 supporting fact"],
        ["examples", "100", "50", "50"],
        ["error (%)", "5.0 [2.0, 11.0]", "10", "0"],
        ["loss (nats)", "0.2"],
        ["ponder_time (steps)", "2.5", "2.75", "2.25"],
        ["ponder_time/question (steps)", "5", "5.5", "4.5"],
    ]


def test_columns_without_room_stand_below_with_their_rows_named_again():
    table = metrics_table(STORY_METRICS, {}, {"": 100}, STORY_GROUPS, ("error",), width=60)
    assert all(len(line) <= 60 for line in table.splitlines())
    first, second = (lines(part) for part in table.split("\n\n"))
    assert first[:2] == [["all", "task 2"], ["2 supporting facts"]]
    assert first[-1] == ["ponder_time/question (steps)", "5", "5.5"]
    assert second == [
        ["task 10"],
        ["1 supporting fact"],
        ["examples", "50"],
        ["error (%)", "0"],
        ["ponder_time (steps)", "2.25"],
        ["ponder_time/question (steps)", "4.5"],
    ]
    # One column is shown however narrow the terminal is.
    assert "task 10" in metrics_table(STORY_METRICS, {}, {"": 100}, STORY_GROUPS, width=10)


def test_sets_are_columns_in_the_order_of_their_lengths():
    metrics = {
        f"length_{length}/{name}": value
        for length in (400, 40)
        for name, value in (("char_acc", 1.0), ("seq_acc", 0.5))
    }
    table = metrics_table(metrics, {}, {"length_400": 20, "length_40": 30}, {}, ("seq_acc",))
    assert lines(table) == [
        ["length_40", "length_400"],
        ["examples", "30", "20"],
        ["seq_acc", "0.5", "0.5"],
        ["char_acc", "1", "1"],
    ]
