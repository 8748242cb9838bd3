"""The page of ut-serve in a browser: a line of a field is an example, as for ut-query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.insights.page.tab import Tab
from tests.serving.python_model import PythonModel, served


def upper(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"outputs": example["inputs"].upper()} for example in examples]


def lengths(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"log_probabilities": -float(len(example["targets"]))} for example in examples]


def last_words(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {"outputs": f"{example['question']}: {len(example['story'].splitlines())} lines"}
        for example in examples
    ]


def ponder(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {"tokens": list(row["inputs"]), "ponder_times": [2.0] * len(row["inputs"])}
        for row in examples
    ]


def impossible(examples: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"outputs": "a: NaN", "scores": -np.inf} for _ in examples]


SIGNATURES = {
    "impossible": (["inputs"], impossible),
    "serving_default": (["inputs"], upper),
    "ponder": (["inputs"], ponder),
    "score": (["inputs", "targets"], lengths),
    "classify": (["story", "question"], last_words),
}


@pytest.fixture
def model() -> PythonModel:
    return PythonModel(SIGNATURES)


@pytest.fixture
def page(tab: Tab, model: PythonModel) -> Iterator[Tab]:
    with served(model) as server:
        tab.visit(server.address, drawn=False)
        tab.wait(lambda: tab.count("textarea"), "the fields")
        yield tab


def ask(page: Tab, signature: str, **texts: str) -> list[str]:
    """What stands under the form after an answer, a text for each part."""
    page.run(
        "const choice = document.getElementById('signature'); choice.value = arguments[0];"
        "choice.dispatchEvent(new Event('change'));"
        "document.getElementById('result').replaceChildren();",
        signature,
    )
    for name, text in texts.items():
        page.run("document.getElementsByName(arguments[0])[0].value = arguments[1]", name, text)
    page.click("form button")
    page.wait(lambda: page.count("#result .answer"), "the answer")
    return page.texts("#result h2, #result .answer")


def test_a_line_is_an_example(page: Tab, model: PythonModel) -> None:
    answers = ask(page, "serving_default", inputs="ab\n\n<b>c</b>\n")
    assert answers == ["ab", "AB", "(empty)", "", "<b>c</b>", "<B>C</B>"]
    assert model.calls[0] == [{"inputs": text} for text in ("ab", "", "<b>c</b>")]
    page.wait(lambda: page.count("#result table") == 2 + 1, "the recurrent steps")
    assert page.texts("#result td:first-child") == [*"ab", *"<b>c</b>"]
    assert ask(page, "serving_default", inputs="one") == ["ONE"]


def test_the_fields_of_an_example_stand_in_the_same_line(page: Tab, model: PythonModel) -> None:
    scores = ask(page, "score", inputs="a\nb", targets="x\nyz")
    assert scores == ["a | x", "log probabilities: -1", "b | yz", "log probabilities: -2"]
    refused = ask(page, "score", inputs="a\nb", targets="x")
    assert refused == ["The fields have 2 and 1 lines: each example has one in each."]
    assert len([call for call in model.calls if "targets" in call[0]]) == 1


def test_a_score_of_minus_infinity_is_shown(page: Tab) -> None:
    assert ask(page, "impossible", inputs="x") == ["a: NaN-Infinity"]


def test_every_question_is_one_about_the_whole_story(page: Tab) -> None:
    answers = ask(page, "classify", story="Mary left.\nJohn came.", question="Who?\nWhere?")
    assert answers == ["Who?", "Who?: 2 lines", "Where?", "Where?: 2 lines"]
