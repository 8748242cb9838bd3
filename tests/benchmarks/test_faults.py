"""benchmarks/faults: how outcomes are judged, samples of two campaigns."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.notices import warn

pytestmark = pytest.mark.slow


def _refuse() -> None:
    raise UserError("a sentence.")


def _warn() -> int:
    warn("passed over.")
    return 2


def _sleep() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: 1, "same"),
        (lambda: 2, "short"),
        (_warn, "told"),
        (_refuse, "refused"),
        (lambda: 1 // 0, "short"),
        (_sleep, "short"),
    ],
)
def test_readers_are_judged(call, kind, script, monkeypatch):
    frame = script("frame")
    monkeypatch.setattr(frame, "LONGEST", 0.1)
    counts = frame.Counts("a fault")
    counts.add(frame.judge(call, 1), "what")
    assert counts.kinds[kind] == 1
    assert counts.short == ["what"] * (kind == "short")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ((1, "", "warning: b\nut-x: error: a.\n"), "refused"),
        ((1, "", "ut-x: error: a.\nmore\n"), "short"),
        ((1, "", "ut-x: error: a.\nut-x: error: b.\n"), "short"),
        ((3, "", "ut-x: error: a.\n"), "short"),
        ((1, "", "ut-x: error: an error that was not foreseen, KeyError (a)\n"), "short"),
        ((None, "", "Traceback"), "short"),
        ((0, "a", "progress\n"), "same"),
        ((0, "b", "ut-x: warning: c\n"), "told"),
    ],
)
def test_commands_are_judged(call, kind, script):
    frame = script("frame")
    assert frame.of_command(frame.Call(*call)).kind == kind


def test_a_sample_of_inputs_is_answered_or_refused(script, tmp_path):
    fuzz = script("fuzz")
    for name, parser in fuzz.parsers().items():
        counts = fuzz.fuzz(name, parser, tmp_path, 5.0, random.Random(1), inputs=40)
        assert not counts.short
        assert sum(counts.kinds.values()) > 20
        # Samples are read, and what is damaged is not read as if nothing were.
        assert counts.kinds["same"] + counts.kinds["told"], name
        assert counts.kinds["refused"] + counts.kinds["told"], name


def test_an_error_that_is_no_sentence_falls_short(script, tmp_path):
    fuzz = script("fuzz")

    def divide(content: bytes, _: Path) -> None:
        assert 1 // (b"0" not in content)

    parser = fuzz.Parser((b"1", b"20"), ("0", "1"), divide)
    assert fuzz.fuzz("a parser", parser, tmp_path, 5.0, random.Random(0), inputs=4).short


def test_a_sample_of_bad_lines_is_refused(script, tmp_path, monkeypatch):
    monkeypatch.delenv("UT_TF_TRACEBACK")
    commands = script("commands")
    # These are refused before any file is read.
    parsed = ("flags", "unknown")
    lines = commands.bad_lines(tmp_path, "http://127.0.0.1:1")
    cases = [case for case in lines if any(word in case.about for word in parsed)]
    assert len(cases) > 700
    for case in random.Random(0).sample(cases, 80):
        outcome = commands.judge_line(case, tmp_path)
        assert outcome.kind == "refused", f"{case}: {outcome.said}"
