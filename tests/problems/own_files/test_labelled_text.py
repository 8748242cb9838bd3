"""JSON lines: texts are strings and labels of one kind, or a line names file and number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ut_tf.errors import UserError
from ut_tf.problems.own_files.classify import ClassifyFiles
from ut_tf.problems.own_files.labelled_text import LabelledFiles, _label, read_labelled


def read(folder: Path, *lines: str) -> list[tuple[str, str]]:
    path = folder / "t.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [example[:2] for example in read_labelled(LabelledFiles((path,)))]


def written(text: str, label: str) -> str:
    return f'{{"text": {text}, "label": {label}}}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("null", "null"),
        ('["a", "b"]', "a list"),
        ("{}", "an object"),
        ("true", "true"),
        ("3", "3"),
        ("NaN", "NaN"),
        ('"\\ud800"', r'"\\ud800"'),
        ("[" * 700 + "]" * 700, "a list"),
    ],
)
def test_a_text_is_a_string(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"t\.jsonl, line 2: the text is {told}: expected a text"):
        read(tmp_path, written('"fine"', '"good"'), written(text, '"good"'))


@pytest.mark.parametrize("label", ["null", "[1]", "{}", "1.5", "NaN", "Infinity", "1e999"])
def test_a_label_is_a_string_a_whole_number_true_or_false(label: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"t\.jsonl, line 1: the label is .*: expected a text, a w"):
        read(tmp_path, written('"x"', label))


def test_whole_numbers_are_one_label_whether_they_have_a_point_or_not(tmp_path: Path) -> None:
    lines = [written('"x"', label) for label in ("1", "1.0", "-2", "-2.0", "0", "-0.0")]
    assert [label for _, label in read(tmp_path, *lines)] == ["1", "1", "-2", "-2", "0", "0"]
    lines = [written('"x"', label) for label in ("true", "false")]
    assert [label for _, label in read(tmp_path, *lines)] == ["True", "False"]


@pytest.mark.parametrize(
    ("first", "second"), [("1", '"1"'), ('"1"', "1.0"), ("true", '"True"'), ("true", "1")]
)
def test_labels_that_differ_by_their_type_are_noticed(
    first: str, second: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"t\.jsonl, line 2: the label .* on line 1 is .*one kind"):
        read(tmp_path, written('"x"', first), written('"y"', second))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3
    )
)
def test_no_value_becomes_the_text_that_python_writes_for_it(value: Any) -> None:
    kind, label = _label(json.loads(json.dumps(value)))
    if isinstance(value, str):
        assert not kind or label == value
    elif kind:
        assert json.loads(label.lower()) == value


def test_labels_of_a_table_that_are_one_number_are_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"text {n},{label}\n" for n in range(4) for label in ("1", "1.0", "2")]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(rows))
    ClassifyFiles(source_files=str(tmp_path / "t.csv")).prepare(tmp_path / "data", tmp_path)
    assert "t.csv: the labels '1' and '1.0' are one number, but two" in capsys.readouterr().err


def test_labels_that_stand_for_none_are_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"text {n},{label}\n" for n in range(4) for label in ("good", "nan", "none")]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(rows))
    ClassifyFiles(source_files=str(tmp_path / "t.csv")).prepare(tmp_path / "data", tmp_path)
    told = capsys.readouterr().err
    assert "t.csv: 4 texts of the class 'nan', which programs write where there is no" in told
    assert "'none'" not in told
