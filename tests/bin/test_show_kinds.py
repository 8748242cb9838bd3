"""ut-show on models that read no stories: boards, outputs, symbols with an answer each."""

from __future__ import annotations

import io
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bin.test_show import encoded
from ut_tf.bin import show
from ut_tf.bin.examples.lines import example_lines
from ut_tf.bin.examples.notes import changes
from ut_tf.bin.frame.terminal import Terminal

Prediction = list[dict[str, Any]]


def guess(text: str, probability: float = 0.9) -> Prediction:
    return [{"text": text, "probability": probability}]


def part(
    texts: Sequence[str],
    times: Sequence[float],
    name: str = "encoder",
    role: str = "token",
    **more: Any,
) -> dict[str, Any]:
    positions = [
        {"text": text, "role": "end" if text == "<end>" else role, "ponder_time": time}
        for text, time in zip(texts, times, strict=True)
    ]
    steps = int(max(times))
    bare = {"attention": None, "memory_attention": None, "predictions": None, "board": None}
    common = {"name": name, "label": name, "steps": steps, "max_steps": steps}
    return {**common, "positions": positions, **bare, **more}


def example(*parts: dict[str, Any], answer: str, target: str | None = None) -> dict[str, Any]:
    correct = None if target is None else answer == target
    thought = {"answer": answer, "probability": 0.9, "correct": correct, "parts": list(parts)}
    return {"group": None, "target": target, "thoughts": [thought]}


def board(target: str | None) -> dict[str, Any]:
    """A board of two boxes beside each other, whose last cell is wrong until the second step."""
    predictions = [[guess(text) for text in row] for row in ("1222", "1221", "1221")]
    size = {"rows": 1, "columns": 4, "box_rows": 1, "box_columns": 2}
    cells = part(["1", "", "2", ""], [1, 3, 1, 2], role="cell", predictions=predictions, board=size)
    return example(cells, answer="1221", target=target)


def test_a_board_is_shown_after_each_step_that_changes_it() -> None:
    assert example_lines(board("1221"), Terminal()) == [
        "  given       step 1      steps 2-3   steps taken",
        "  1 . │ 2 .   1 2 │ 2 2   1 2 │ 2 1   1 3 │ 1 2",
        "  answer: 1221 (90%), right",
    ]
    narrow = example_lines(board(None), Terminal(width=24, has_drawing=False))
    assert narrow[:2] == ["  given       step 1", "  1 . | 2 .   1 2 | 2 2"]
    assert narrow[-1] == "  answer: 1221 (90%)"
    coloured = example_lines(board("1221"), Terminal(has_colour=True))[1]
    # Of the filled cells the second is right and the last is not yet.
    assert "1 \033[32m2\033[0m │ 2 \033[31m2\033[0m" in coloured


def test_two_levels_show_how_far_each_still_moves_and_what_q_says() -> None:
    moves = {"residual": [None, 0.5, 0.04], "low_residual": [1.6, 0.25, 3e-6]}
    more = {"halting_probability": None, "q_halt": [0.1, 0.4, 0.999]}
    shown = example(part(["a", "b"], [3, 3], **moves, **more), answer="a")
    lines = example_lines(shown, Terminal())
    assert lines[2:6] == [
        "  step      1   2    3",
        "  residual  -   0.5  0.04",
        "  low level 1.6 0.25 3e-06",
        "  q halts   10% 40%  >99%",
    ]
    told = " ".join(line.strip() for line in lines[6:-1])
    assert told.startswith("(residual: how far a step moves the states")
    assert told.endswith("q halts: how sure the model is at that step that its answer is right)")
    deep = part(["a"], [20], residual=[0.5] * 20, halting_probability=None)
    lines = example_lines(example(deep, answer="a"), Terminal(width=24))
    assert lines[1:6] == [
        "  step     1   2   4",
        "  residual 0.5 0.5 0.5",
        "  8   16  20",
        "  0.5 0.5 0.5",
        "  (residual: how far a",
    ]


def test_the_example_whose_answers_change_most_stands_first() -> None:
    quiet, lively = board(None), board(None)
    quiet["thoughts"][0]["parts"][0]["predictions"] = [[guess(text) for text in "1221"]] * 3
    assert [changes(quiet), changes(lively)] == [0, 1]
    assert show._liveliest_first([quiet, lively, quiet]) == [lively, quiet, quiet]
    assert show._liveliest_first([]) == []


def test_outputs_show_their_probability_earlier_guesses_and_source() -> None:
    source = part(["ab", "c", "<end>"], [3, 2, 1])
    looks = encoded([[[[0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]]] * 2)
    predictions = [[guess("x", 0.4), guess("<end>")], [guess("C", 0.97), guess("<end>")]]
    output = part(
        ["C", "<end>"], [2, 1], "decoder", predictions=predictions, memory_attention=looks
    )
    assert example_lines(example(source, output, answer="C", target="D"), Terminal()) == [
        "  encoder:",
        "   3 ██████ ab",
        "   2 ████   c",
        "   1 ██     <end>",
        "  decoder:",
        "   2 ████ C         97% (step 1: x)  ← c 80%",
        "   1 ██   <end>     90%  ← <end> 60%",
        "  answer: C (90%), wrong: it is D",
    ]


def test_symbols_of_a_text_show_what_is_answered_or_expected_there() -> None:
    predictions = [[guess("0"), guess("0")], [guess("0"), guess("1", 0.8)]]
    bits = part(["0", "1"], [1, 2], predictions=predictions)
    assert example_lines(example(bits, answer="01"), Terminal())[1] == (
        "   2 ████ 1         → 1 80% (step 1: 0)"
    )
    words = part(["the", "cat"], [1, 1], "decoder", predictions=[[guess("the", 0.5), guess("dog")]])
    lines = example_lines(example(words, answer="dog", target="cat"), Terminal(has_drawing=False))
    assert lines[0].endswith("the       50%") and lines[1].endswith("cat       -> dog 90%")


def test_a_class_is_shown_as_it_changes_with_the_steps() -> None:
    predictions = [[guess("plural", 0.6)], [guess("singular", 0.7)], [guess("singular", 0.98)]]
    words = part(["the", "keys"], [2, 3], predictions=predictions)
    lines = example_lines(example(words, answer="singular"), Terminal())
    assert lines[-2:] == [
        "  after step 1: plural 60%; steps 2-3: singular 98%",
        "  answer: singular (90%)",
    ]


def test_many_short_symbols_share_a_line() -> None:
    digits = part([*"31415926535897932384", "<end>"], [*[4] * 20, 10])
    lines = example_lines(example(digits, answer="4"), Terminal(width=44))
    assert lines == [
        "  3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3 2 3 8 4",
        "  ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄ ▄",
        "  4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4",
        "  <end>",
        "  █",
        "  10",
        "  answer: 4 (90%)",
    ]


@pytest.mark.parametrize(
    ("model", "typed", "shown", "refused"),
    [
        ("reverse", ["27x", "27"], ["output:", "answer: 72 (>99%)", "31415926"], "of the digits"),
        ("sudoku4", ["12", "1234 3412 2143 432."], ["steps taken", "4321"], "16 characters"),
    ],
)
def test_a_shipped_model_shows_a_sample_and_answers_what_is_typed(
    model: str,
    typed: list[str],
    shown: list[str],
    refused: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = iter([*typed, "exit"])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    monkeypatch.setattr(
        "sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(), isatty=lambda: True)
    )
    page = tmp_path / "think.html"
    flags = [f"--model={model}", f"--data_dir={tmp_path}", f"--html={page}", "--no_open"]
    assert show.main(flags) == 0
    printed = capsys.readouterr()
    for text in (*shown, "such as "):
        assert text in printed.out
    assert printed.out.count("answer: ") == 2
    assert refused in printed.err and printed.err.count("ut-show: ") == 1
    assert typed[1] in page.read_text()


def test_a_line_that_cannot_be_read_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped = io.BytesIO(b"17+5\n3*4\n\n2+2\n1+\n")
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=piped, isatty=lambda: False))
    assert show.main(["--model=addition", f"--data_dir={tmp_path}"]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("answer: ") == 2
    assert "source (lowest digit first):" in printed.out
    for told in ("line 2: '3*4'", "line 5: '1+'"):
        assert f"warning: standard input, {told} is not what this problem reads" in printed.err
    assert printed.err.count("This line is left out.") == 2


def test_a_model_that_shows_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(__file__).parents[1] / "stored_runs" / "bytenet" / "run"
    assert show.main([f"--output_dir={run}", f"--data_dir={tmp_path}", "--input=1"]) == 1
    printed = capsys.readouterr()
    assert "ut-show: error: the model bytenet shows neither states of its steps" in printed.err
    assert printed.out == ""
