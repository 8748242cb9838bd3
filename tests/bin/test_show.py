"""ut-show: what it prints, what may be typed, and how it tells of unknown words."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ut_tf
from ut_tf.bin import avg_checkpoints, datagen, decoder, report, show, trainer
from ut_tf.bin import eval as eval_command
from ut_tf.bin.examples.lines import example_lines
from ut_tf.bin.frame.terminal import Terminal, width_of
from ut_tf.errors import UserError
from ut_tf.insights.story_lines import story_lines

RUN = Path(__file__).parents[1] / "stored_runs" / "ut_halting_reverse" / "run"


def strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each text in a value of JSON."""
    if isinstance(value, str):
        yield path
    entries = enumerate(value) if isinstance(value, list) else getattr(value, "items", tuple)()
    for key, entry in entries:
        yield from strings(entry, (*path, key))


def with_order(folder: Path, path: tuple[Any, ...]) -> Path:
    """A copy of the run in which a text of the configuration ends with an order."""
    shutil.copytree(RUN, folder)
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    value = config
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] += ORDER
    file.write_text(json.dumps(config), encoding="utf-8")
    return folder


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
    asked = ["Mary went to the kichen.", "M\udcff.", "xyzzy.", mary, "Where is Mary?", "", "?"]
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
    assert printed.err.count("left out: a line that is not UTF-8.") == 1
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


@pytest.mark.parametrize("numbers", [pytest.param(("1 ", "2 "), marks=pytest.mark.slow), ("", "")])
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


@pytest.mark.slow
def test_damaged_bytes_do_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"--output_dir={STORED_RUN}", f"--data_dir={tmp_path}"]
    piped = io.BytesIO(b"Mary \xff to the kitchen.\nWhere is Mary?\n")
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=piped, isatty=lambda: False))
    assert show.main(arguments) == 0
    printed = capsys.readouterr()
    assert "standard input, line 1: byte 6 is not UTF-8" in printed.err
    assert printed.out.count("answer: ") == 1


ORDER = "\x1b]0;owned\x07\x9b2J\x7f"
ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str]) -> Any:
    """Calls a command, and gives what it has written."""

    def call(command: Any, *argv: str) -> str:
        command.main([*argv])
        return "".join(capfd.readouterr())

    return call


def test_labels_of_texts(shown: Any, tmp_path: Path) -> None:
    lines = [f"{('pos', 'neg')[i % 2]}{ORDER}\tsome text {i}\n" for i in range(60)]
    (tmp_path / "texts.tsv").write_text("".join(lines), encoding="utf-8")
    folders = [f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}"]
    source = f"--source_files={tmp_path}/texts.tsv"
    written = shown(datagen, "--problem=classify_files", source, *folders)
    assert "2 classes" in written and not ORDERS.search(written)


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


def test_a_class_is_shown_as_it_changes_with_the_steps() -> None:
    predictions = [[guess("plural", 0.6)], [guess("singular", 0.7)], [guess("singular", 0.98)]]
    words = part(["the", "keys"], [2, 3], predictions=predictions)
    lines = example_lines(example(words, answer="singular"), Terminal())
    assert lines[-2:] == [
        "  after step 1: plural 60%; steps 2-3: singular 98%",
        "  answer: singular (90%)",
    ]


def test_a_shipped_model_shows_a_sample_and_answers_what_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    board = "1234 3412 2143 432."
    lines = iter(["12", board, "exit"])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    monkeypatch.setattr(
        "sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(), isatty=lambda: True)
    )
    page = tmp_path / "think.html"
    flags = ["--model=sudoku4", f"--data_dir={tmp_path}", f"--html={page}", "--no_open"]
    assert show.main(flags) == 0
    printed = capsys.readouterr()
    for text in ("steps taken", "4321", "such as "):
        assert text in printed.out
    assert printed.out.count("answer: ") == 2
    assert "16 characters of '.12340', found 2; c" in printed.err
    assert printed.err.count("ut-show: ") == 1
    assert board in page.read_text()


def test_a_board_s_answer_is_right_by_the_rules_alone(capsys: pytest.CaptureFixture[str]) -> None:
    # The second has no solution: its first row lacks a 4 where the column has one.
    for board, verdict in (("123434122143432.", "right"), ("123....4........", "it breaks")):
        assert show.main(["--model=sudoku4", f"--input={board}"]) == 0
        assert verdict in capsys.readouterr().out.splitlines()[-1]
    assert show.main(["--model=sudoku4", "--input=123x" * 4]) == 1
    assert "found 'x'" in capsys.readouterr().err


def test_a_saved_model_is_not_trained() -> None:
    run = ut_tf.load("sudoku4").run
    with pytest.raises(UserError, match=r"holds a saved model, which cannot .*`warm_start_from`"):
        ut_tf.train(run)
    assert not (run.output_dir / "checkpoints").exists()
    assert run.in_use({"eval_num_steps": 3}).hparams == run.in_use("eval_num_steps=3").hparams


def test_an_input_that_is_not_utf_8_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.main(["--model=babi", "--input=Mary \udcff to the kitchen. Where is Mary?"]) == 2
    assert "--input has bytes that are not UTF-8" in capsys.readouterr().err


def test_a_model_that_shows_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(__file__).parents[1] / "stored_runs" / "bytenet" / "run"
    assert show.main([f"--output_dir={run}", f"--data_dir={tmp_path}", "--input=1"]) == 1
    printed = capsys.readouterr()
    assert "ut-show: error: the model bytenet shows neither states of its steps" in printed.err
    assert printed.out == ""


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_the_name_of_a_run_s_set(shown: Any, tmp_path: Path) -> None:
    run = with_order(tmp_path / "run", ("hparams_set",))
    written = shown(eval_command, f"--output_dir={run}", "--checkpoint=last")
    assert "ut_algorithmic_reverse\ufffd" in written and not ORDERS.search(written)


@pytest.mark.slow
@pytest.mark.parametrize("path", strings(json.loads((RUN / "config.json").read_text())), ids=str)
def test_every_text_of_a_configuration(shown: Any, tmp_path: Path, path: tuple[Any, ...]) -> None:
    (tmp_path / "in.txt").write_text("3 1 2\n")
    for number, (command, *argv) in enumerate(
        [
            (eval_command, "--checkpoint=last"),
            (decoder, f"--decode_from_file={tmp_path}/in.txt"),
            (trainer, "--train_steps=1"),
            (trainer, "--plan"),
            (avg_checkpoints,),
        ]
    ):
        run = with_order(tmp_path / str(number), path)
        assert not ORDERS.search(shown(command, f"--output_dir={run}", *argv)), command.COMMAND
    assert not ORDERS.search(shown(report, str(with_order(tmp_path / "report", path))))
