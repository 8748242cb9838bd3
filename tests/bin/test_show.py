"""ut-show: what it prints, what may be typed, and how it tells of unknown words."""

from __future__ import annotations

import base64
import io
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ut_tf.bin import show
from ut_tf.bin.examples.lines import example_lines
from ut_tf.bin.examples.notes import attention_weights
from ut_tf.bin.frame.terminal import Terminal, width_of
from ut_tf.insights.story_lines import story_lines

PLACES = ("kitchen", "kichen", "hallway")
STORED_RUN = Path(__file__).parents[1] / "stored_runs" / "ut_facts" / "run"


def encoded(weights: Any, indices: Any = None) -> dict[str, Any]:
    """Attention of a document, from weights [steps, heads, queries, keys]."""
    values = np.round(255 * np.array(weights)).astype(np.uint8)
    chosen = None if indices is None else np.array(indices, "<u2")
    return {
        "shape": list(values.shape),
        "weights": base64.b64encode(values.tobytes()).decode(),
        "indices": None if chosen is None else base64.b64encode(chosen.tobytes()).decode(),
        "averaged": False,
    }


def story(correct: bool | None = True) -> dict[str, Any]:
    """An example of two facts and a question that takes three steps and looks at the second fact
    from its second step on.
    """
    looks = [[[0.0, 0.0, 1.0]] * 2 + [row] for row in ([0.1, 0.1, 0.8], [0.2, 0.7, 0.1])]
    positions = [
        {"text": text, "role": role, "ponder_time": time, "remainder": 0.0}
        for text, role, time in (
            ("anna took the lamp", "fact", 1.0),
            ("anna went to the attic", "fact", 2.0),
            ("where is the lamp", "question", 3.0),
        )
    ]
    part = {
        "name": "encoder",
        "label": "facts and question",
        "steps": 3,
        "max_steps": 6,
        "positions": positions,
        "attention": encoded([[looks[0]], [looks[1]], [looks[1]]]),
        "memory_attention": None,
        "predictions": None,
        "board": None,
    }
    thought = {"answer": "attic", "probability": 0.981, "correct": correct, "parts": [part]}
    return {"group": "2 supporting facts", "target": "attic", "thoughts": [thought]}


def test_a_story_has_bars_what_the_question_attends_to_and_the_answer() -> None:
    assert example_lines(story(), Terminal()) == [
        "2 supporting facts",
        "   1 ██           anna took the lamp",
        "   2 ████         anna went to the attic  ← steps 2-3: 70%",
        "   3 ██████       where is the lamp",
        "  answer: attic (98%), right",
    ]


def test_without_the_characters_of_bars_everything_is_ascii() -> None:
    lines = example_lines(story(correct=False), Terminal(has_drawing=False))
    assert lines[2] == "   2 ####         anna went to the attic  <- steps 2-3: 70%"
    assert lines[-1] == "  answer: attic (98%), wrong: it is attic"
    assert all(line.isascii() for line in lines)


def test_lines_keep_to_the_width_of_the_terminal() -> None:
    lines = example_lines(story(), Terminal(width=52))
    assert lines[2] == "   2 ████         anna went to th…  ← steps 2-3: 70%"
    assert max(map(len, lines)) <= 52


def test_colours_are_for_terminals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[32mright\033[0m" in example_lines(story(), Terminal.of(Screen()))[-1]
    assert not Terminal.of(io.TextIOWrapper(io.BytesIO(), "utf-8")).has_colour
    assert not Terminal.of(io.TextIOWrapper(io.BytesIO(), "ascii")).has_drawing
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Terminal.of(Screen()).has_colour
    monkeypatch.setenv("COLUMNS", "40")
    assert width_of(Screen()) == 40


def test_attention_to_the_strongest_keys_alone() -> None:
    weights = attention_weights(encoded([[[[0.6, 0.4]]]], [[[[3, 1]]]]), 0)
    np.testing.assert_allclose(weights, [[0, 0.4, 0, 0.6]], atol=0.01)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Anna ran. Bob sat? ", ["1 Anna ran.", "2 Bob sat?"]),
        (
            "Anna ran\nWhere is Anna?\n\nBob sat\nWho?",
            ["1 Anna ran", "2 Where is Anna?", "1 Bob sat", "2 Who?"],
        ),
        ("1 Anna ran.\n2 Where is Anna?\tattic\t1", ["1 Anna ran.", "2 Where is Anna?\tattic\t1"]),
        ("Anna ran.\nWhere is Anna?\tattic", ["1 Anna ran.", "2 Where is Anna?\tattic"]),
    ],
)
def test_stories_may_be_typed_without_numbers(text: str, expected: list[str]) -> None:
    assert story_lines(text) == expected


def test_a_stored_run_is_shown_and_answers_what_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    mary = "Mary went to the kitchen."
    asked = ["Mary went to the kichen.", "xyzzy.", mary, "Where is Mary?", "", "?"]
    typed = iter([*asked, mary, "Where is Mary", "", "", mary, "", "exit", "Where is Mary?"])

    def read(_prompt: str = "") -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("COLUMNS", "50")
    arguments = [f"--output_dir={STORED_RUN}", f"--data_dir={tmp_path}", f"--html={page}"]
    assert show.main(arguments) == 0
    printed = capsys.readouterr()
    words = printed.out[printed.out.index("The model knows ") :].partition(".\n")[0]
    assert words.count("\n") > 1
    assert max(map(len, words.splitlines())) <= 50
    assert "read as unknown: kichen, xyzzy; near words that it has: kitchen.\n" in printed.err
    assert "1 supporting fact" in printed.out
    assert "where is mary" in printed.out
    # The stored sample, the question, and the one that lacks its "?"; nothing after "exit".
    assert printed.out.count("answer: ") == 3
    assert printed.err.count("ut-show: a new story begins.") == 2
    assert printed.err.count("no question yet: end it with ?") == 1
    assert printed.out.count("The model knows ") == 1
    assert printed.out.count('a question that ends with "?"') == 2
    assert f"{page} shows every step." in printed.out
    assert "mary went to the kitchen" in page.read_text()
    assert opened == [page.as_uri()]


@pytest.mark.parametrize("numbers", [("1 ", "2 "), ("", "")])
def test_stories_that_cannot_be_read_leave_the_others(
    numbers: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = numbers
    whole = [f"{first}Mary went to the {place}.\n{second}Where is Mary?\n" for place in PLACES]
    whole[1] = whole[1].replace("Where is Mary", "Xyzzy kichen")
    whole.append(whole[0].replace("?", ""))
    piped = io.BytesIO("\n".join(whole).encode())
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=piped, isatty=lambda: False))
    assert show.main([f"--output_dir={STORED_RUN}", f"--data_dir={tmp_path}"]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("answer: ") == 2
    refused = "line 5: the question has no word that the model knows (xyzzy, kichen); correct"
    assert f"warning: standard input, {refused}" in printed.err
    assert "warning: standard input, line 11: the story has no question: end one" in printed.err
    assert printed.err.count("is left out") == 2


def test_no_word_commands_the_terminal() -> None:
    example = story()
    thought = example["thoughts"][0]
    thought["answer"] = thought["parts"][0]["positions"][0]["text"] = "a\x1b]0;title\x07\nb\x9b2J"
    lines = example_lines(example, Terminal(has_colour=True))
    assert "a?]0;title??b?2J" in lines[1] and "a?]0;title??b?2J" in lines[-1]
    assert "\033[1m" in lines[0]


def test_damaged_bytes_do_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"--output_dir={STORED_RUN}", f"--data_dir={tmp_path}"]
    piped = io.BytesIO(b"Mary \xff to the kitchen.\nWhere is Mary?\n")
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=piped, isatty=lambda: False))
    assert show.main(arguments) == 0
    assert show.main([*arguments, "--input=Mary \udcff to the kitchen. Where is Mary?"]) == 0
    printed = capsys.readouterr()
    assert "standard input, line 1: byte 6 is not UTF-8" in printed.err
    assert "warning: --input has bytes that are not UTF-8; each is read as U+FFFD." in printed.err
    assert printed.out.count("answer: ") == 2
