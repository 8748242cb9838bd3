"""Learning to execute: results are Python's, difficulties are drawn as the strategy says, and no
split meets another.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf import registry
from ut_tf.data.pipeline import eval_batches
from ut_tf.errors import UserError
from ut_tf.problems.lte import programs as lte_programs
from ut_tf.problems.lte import zaremba as lte_zaremba
from ut_tf.problems.lte.codec import CharacterCodec
from ut_tf.problems.lte.problem import LearningToExecute

DATA_DIR = Path("nowhere")
COMPUTING: Any = ("program", "control", "addition")


def small(task: Any = "program", **arguments: Any) -> LearningToExecute:
    return LearningToExecute(
        task, **{"train_examples": 400, "validation_examples": 40, "test_examples": 60, **arguments}
    )


def turn(start: int, turns: int, added: int) -> int:
    x = start
    for _ in range(turns):
        x += added
    return x


def value_by_python(program: str) -> int:
    """What Python makes of a program, after its loops have become calls; the last numeral of a loop
    is its last character.
    """
    calls = re.sub(r"for\[(\d)\]x\+=(\d+)", r",\1,\2)", program).replace("x=", "turn(")
    return int(eval(calls.replace("if", " if ").replace("else", " else "), {"turn": turn}))


def printed_by_python(program: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(program, {})
    return output.getvalue().rstrip("\n")


def digits_of(program: str) -> int:
    return max(len(one) for one in re.findall(r"\d+", program))


@pytest.mark.parametrize("task", COMPUTING)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), length=st.integers(1, 8), nesting=st.integers(1, 4))
def test_results_of_programs_are_pythons(task: str, seed: int, length: int, nesting: int) -> None:
    draws = random.Random(seed)
    operations = [lte_programs.OPERATIONS[name] for name in lte_programs.SETS[task]]
    for _ in range(20):
        program, result = lte_programs.write_program(draws, length, nesting, operations)
        assert int(result) == value_by_python(program) % 10 ** (length + 1)
        assert result == str(int(result))
        assert {*program} <= {*lte_programs.SYMBOLS}


@pytest.mark.parametrize("task", COMPUTING)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**31), length=st.integers(1, 6), nesting=st.integers(1, 4))
def test_what_is_printed_is_what_python_prints(
    task: str, seed: int, length: int, nesting: int
) -> None:
    draws = random.Random(seed)
    names, signs = lte_zaremba.SETS[task]
    for _ in range(20):
        program, result = lte_zaremba.write_printing_program(draws, length, nesting, names, signs)
        assert result == printed_by_python(program)
        assert {*program, *result} <= {*lte_zaremba.SYMBOLS}


def test_programs_of_the_published_form() -> None:
    forms = {
        "add": r"\d{3}\+\d{3}",
        "subtract": r"\d{3}-\d{3}",
        "multiply": r"\d{3}\*\d{3}",
        "if": r"\d{3}if\d{3}[<>]\d{3}else\d{3}",
        "for": r"x=\d{3}for\[[1-9]\]x\+=\d{3}",
    }
    for name, form in forms.items():
        for program, _ in small(operations=name, length=3, nesting=1).pairs("test", length=3):
            assert re.fullmatch(form, program), program
    nested = [
        program for program, _ in small(operations="subtract", length=3).pairs("test", length=3)
    ]
    assert all(re.fullmatch(r"\(\d{3}-\d{3}\)-\d{3}", program) for program in nested)


def test_statements_of_the_published_form() -> None:
    # The paper's example is one of those that can be written: assignments, a loop, nested sums and
    # a print.
    programs = [
        program
        for program, _ in small(form="statements", nesting=3, test_examples=300).pairs(
            "test", length=4
        )
    ]
    loops = [program for program in programs if "for x in range(" in program]
    assert any(
        re.fullmatch(
            r"([a-z])=\d{4}\nfor x in range\(\d+\):\n  \1\+=\d{4}\n[\s\S]*print\(.*\)", program
        )
        for program in loops
    )
    assert any(
        re.search(r"print\(\(.*\) if \d{4}[<>]\d{4} else \d{4}\)$", program) for program in programs
    )
    assert (
        max(int(turns) for program in loops for turns in re.findall(r"range\((\d+)\)", program))
        == 16
    )


@pytest.mark.parametrize(
    ("task", "expected"), [("copy", "{0}"), ("double", "{0}{0}"), ("reverse", "{1}")]
)
def test_digit_strings_by_definition(task: Any, expected: str) -> None:
    for digits, result in small(task).pairs("train", seed=1):
        assert result == expected.format(digits, digits[::-1])
        assert digits.isdigit() and digits[0] != "0" and len(digits) <= 55


def test_length_and_nesting_are_uniform_in_training_and_the_targets_own_when_judged() -> None:
    problem = LearningToExecute("addition", train_examples=10_000)
    drawn = [
        (digits_of(program), program.count("+")) for program, _ in problem.pairs("train", seed=1)
    ]
    counts = np.array(
        [[drawn.count((length, nesting)) for nesting in (1, 2)] for length in range(1, 6)]
    )
    # 1000 of each are expected, with a deviation of 30; of one digit and one sum there are 81
    # inputs, and what share of them is trained on the checksum decides.
    assert counts.sum() == 10_000
    assert (abs(counts.ravel()[1:] - 1000) < 130).all() and counts[0, 0] > 800
    assert {
        (digits_of(program), program.count("+")) for program, _ in problem.pairs("test", length=5)
    } == {(5, 2)}
    lengths = [
        len(digits)
        for digits, _ in LearningToExecute("copy", train_examples=11_000).pairs("train", seed=1)
    ]
    assert (
        sorted(set(lengths)) == list(range(1, 56))
        and abs(np.bincount(lengths)[2:] - 200).max() < 75
    )
    assert {
        len(digits) for digits, _ in LearningToExecute("copy").pairs("validation", length=55)
    } == {55}


def test_a_split_without_any_input_is_refused_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the nine numerals of one digit every split has some; a checksum that put them elsewhere
    # would leave one empty.
    monkeypatch.setattr("ut_tf.problems.lte.problem.split_of", lambda _: "train")
    with pytest.raises(UserError, match="lte_copy has no inputs of 1 digits or less that belong"):
        small("copy", length=1).pairs("test")


@pytest.mark.parametrize(("task", "length"), [("program", 5), ("reverse", 55)])
def test_validation_chooses_by_the_target_difficulty(task: Any, length: int) -> None:
    problem = small(task)
    mixed, target = problem.validation_sets()
    assert problem.selection_metric == (f"{target.name}/char_acc", "max")
    assert (mixed.method, mixed.length, target.method, target.length) == (
        "teacher_forced",
        None,
        "greedy",
        length,
    )
    judged = eval_batches(problem, problem.evaluation_sets()[0], DATA_DIR, batch_tokens=4096)
    assert sum(len(batch["weight"]) for batch in judged) == problem.test_examples
    assert [one.length for one in problem.evaluation_sets((2, 3))] == [2, 3]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="'divide' is none of add, subtract"):
        small(operations="add+divide")
    with pytest.raises(UserError, match="copy takes digit strings"):
        small("copy", form="statements")
    with pytest.raises(UserError, match="`nesting`=26: expected at most 25"):
        small(form="statements", nesting=26)
    with pytest.raises(UserError, match="no split 'dev'"):
        small().pairs("dev")
    with pytest.raises(UserError, match="`length`=-1"):
        small(length=-1)
    with pytest.raises(UserError, match=r"`target_share`=1\.5: expected a number from 0 to 1"):
        small(target_share=1.5)


def texts(values: Any) -> list[str]:
    return [one.decode() for one in values.numpy()]


def written_tokens(codec: CharacterCodec, features: Any) -> list[list[str]]:
    return [texts(row) for row in codec.tokens(features)]


def test_a_little_endian_model_writes_results_from_their_last_digit() -> None:
    plain, turned = small("addition"), small("addition", little_endian=True)
    assert plain.pairs("test") == turned.pairs("test")
    row = turned.examples("test", DATA_DIR).batch(np.arange(1, dtype=np.int32))
    codec = CharacterCodec(lte_programs.DIGITS)
    assert texts(codec.decode(row["targets"])) == [plain.pairs("test")[0][1][::-1]]
    decoded = turned.text_codec(Path()).decode(row["targets"])
    assert texts(decoded) == [plain.pairs("test")[0][1]]
    with pytest.raises(UserError, match=r"^`little_endian`=true: lte_copy is about the order"):
        small("copy", little_endian=True)


@pytest.mark.parametrize(
    ("name", "little_endian"),
    [
        ("lte_program", False),
        ("lte_program", True),
        ("lte_zaremba_program", False),
        ("lte_zaremba_program", True),
        ("lte_double", False),
    ],
)
def test_lines_become_the_features_of_training_and_outputs_the_results(
    name: str, little_endian: bool
) -> None:
    problem: Any = registry.problems.get(name)(test_examples=50, little_endian=little_endian)
    codec = problem.text_codec(Path())
    pairs = problem.pairs("test", length=4)
    lines = [program.replace("\n", r"\n") for program, _ in pairs]
    features = problem.examples("test", DATA_DIR, length=4).batch(np.arange(50, dtype=np.int32))
    read = [line for (line,) in codec.read(lines, "programs.txt")]
    np.testing.assert_array_equal(codec.encode(read)["inputs"], features["inputs"])
    np.testing.assert_array_equal(
        codec.encode_targets([result for _, result in pairs]), features["targets"]
    )
    assert texts(codec.decode(features["targets"])) == [result for _, result in pairs]
    assert [codec.input_text(tokens) for tokens in written_tokens(codec, features)] == lines
    assert codec.vocab_sizes == (problem.spec(DATA_DIR).input_vocab_size,) * 2
