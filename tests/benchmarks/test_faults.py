"""benchmarks/faults: how outcomes are judged, and a sample of bad command lines."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import types
from pathlib import Path

import pytest

from ut_tf.errors import UserError
from ut_tf.notices import warn
from ut_tf.storage.json_lines import sealed

FOLDER = Path(__file__).parents[2] / "benchmarks" / "faults"
# These are refused before any file is read.
PARSED = (
    "unknown flags and words",
    "integer flags",
    "float flags",
    "boolean flags",
    "flags without a value",
    "flags that are missing",
)


@pytest.fixture(scope="module", autouse=True)
def scripts():
    """The scripts import each other by name."""
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


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
        (lambda: 2, "changed"),
        (_warn, "told"),
        (_refuse, "refused"),
        (lambda: 1 // 0, "traceback"),
        (_sleep, "traceback"),
    ],
)
def test_readers_are_judged(call, kind, monkeypatch):
    import outcomes

    if call is _sleep:
        monkeypatch.setattr(outcomes, "LONGEST", 0.1)
    outcome = outcomes.judged(call, 1)
    counts = outcomes.Counts("a fault")
    counts.add(outcome, "what")
    assert outcome.kind == kind
    assert counts.has_failed == (kind in ("changed", "traceback"))


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ((1, "", "warning: b\nut-x: error: a.\n"), "refused"),
        ((1, "", "ut-x: error: a.\nmore\n"), "traceback"),
        ((1, "", "ut-x: error: a.\nut-x: error: b.\n"), "traceback"),
        ((3, "", "ut-x: error: a.\n"), "traceback"),
        ((1, "", "ut-x: error: an error that was not foreseen, KeyError (a)\n"), "traceback"),
        ((None, "", "Traceback"), "traceback"),
        ((0, "a", ""), "same"),
        ((0, "b", ""), "changed"),
        ((0, "b", "warning: c\n"), "told"),
    ],
)
def test_commands_are_judged(call, kind):
    from outcomes import Call, of_command

    assert of_command(Call(*call), "a").kind == kind


@pytest.mark.parametrize(
    ("written", "errors", "kind"),
    [
        ("all", "", "same"),
        ("half", "", "changed"),
        (None, "", "changed"),
        ("half", "warning: there was no room for the rest.\n", "told"),
    ],
)
def test_an_answer_without_room_must_be_whole_or_told(tmp_path, written, errors, kind):
    from full_disk import Writer, _content, _refused
    from outcomes import Call

    if written:
        (tmp_path / "answers").write_text(written)
    call = Call(0, "", errors)
    writer = Writer("", lambda _: call, lambda _: None, lambda _: "", _content("answers"))
    disk = types.SimpleNamespace(folder=tmp_path)
    assert _refused(writer, disk, call, b"all").kind == kind


def test_a_trace_is_of_the_start_only_without_frames_of_what_a_command_imports():
    import interrupts

    from ut_tf import errors, problems
    from ut_tf.bin import entry

    def is_of_start(*files):
        frames = "".join(f'  File "{file}", line 1, in <module>\n' for file in files)
        return interrupts.is_of_start(f"Traceback:\n{frames}KeyboardInterrupt\n")

    start = ("/python/bin/ut-trainer", "<frozen importlib._bootstrap>", entry.__file__)
    assert is_of_start(*start)
    tensorflow = importlib.util.find_spec("tensorflow").origin
    for file in (errors.__file__, problems.__file__, tensorflow):
        assert not is_of_start(*start, file)


def test_bits_of_all_logs_are_flipped_in_a_seeded_order(tmp_path):
    from damaged import LOGS, log_bits

    (tmp_path / "run").mkdir()
    contents = {tmp_path / "run" / name: bytes(40) for name in LOGS}
    for path, content in contents.items():
        path.write_bytes(content)
    damages = list(log_bits(tmp_path, random.Random(0)))
    assert len({(damage.path, damage.content) for damage in damages}) == 8 * 40 * len(LOGS)
    assert {damage.path for damage in damages[:30]} == set(contents)
    assert damages == list(log_bits(tmp_path, random.Random(0)))


def test_a_sample_of_bad_lines_is_refused(tmp_path, monkeypatch):
    from bad_words import of_flags
    from commands import judged

    monkeypatch.delenv("UT_TF_TRACEBACK")
    cases = [case for case in of_flags(tmp_path) if case.about in PARSED]
    assert len(cases) > 700
    for case in random.Random(0).sample(cases, 80):
        outcome = judged(case, tmp_path, "http://127.0.0.1:1")
        assert outcome.kind == "refused", f"{case}: {outcome.said}"


def test_logs_are_compared_without_the_speed(tmp_path):
    import equality

    def log(name: str, loss: float, speed: float) -> Path:
        (tmp_path / name).mkdir()
        line = {"kind": "train", "step": 2, "loss": loss, "tokens_per_second": speed}
        (tmp_path / name / "metrics.jsonl").write_text(f"{sealed(json.dumps(line))}\n")
        return tmp_path / name

    whole = equality.metrics_of(log("whole", 2.5, 100.0))
    assert whole == equality.metrics_of(log("killed", 2.5, 50.0))
    assert whole != equality.metrics_of(log("other", 2.500001, 100.0))
