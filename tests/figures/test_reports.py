"""Learning curves, and the report as HTML, of run directories written by hand."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.bin.stub_runs import evaluate, stub_run
from tests.tables.report_rows import at_400
from ut_tf.bin import report
from ut_tf.errors import UserError
from ut_tf.figures.curves import learning_curves, main_curves, matching_curves, read_curves
from ut_tf.storage.json_lines import sealed

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
    curves = {run.name: read_curves(run) for run in runs}
    assert "metrics.jsonl, line 5 is cut short" in capsys.readouterr().err
    names = main_curves(curves)
    assert names == ["train/loss", "eval/seq_acc"]
    axes = learning_curves(curves, names).axes
    assert [axis.get_title(loc="left") for axis in axes] == names
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes[1].lines}
    assert drawn == {"a": [[10, 0.25], [20, 0.5]], "b": [[10, 0.125]]}
    with pytest.raises(UserError, match="did you mean train/loss"):
        learning_curves(curves, ["train/los"])
    assert matching_curves(curves, ["eval/*", "train/los"]) == ["eval/seq_acc", "train/los"]
    places = [*map(str, runs), "--curves=eval/seq_*", f"--output={tmp_path}/all.svg"]
    assert report.main(places) == 0
    assert "all.svg" in capsys.readouterr().err
    assert "eval/seq_acc" in (tmp_path / "all.svg").read_text()
    assert not (tmp_path / "all.png").exists()


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
