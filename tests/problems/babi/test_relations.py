"""Simulated bAbI tasks 4 and 15 to 20: an independent reading gives the same answers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

import pytest

from ut_tf.problems.babi.simulator.story import Simulator, StorySize, file_lines
from ut_tf.problems.babi.simulator.tasks import SIMULATORS as ALL_SIMULATORS

TASKS = (4, 15, 16, 17, 18, 19, 20)
SIMULATORS: dict[int, Simulator] = {task: ALL_SIMULATORS[task] for task in TASKS}
Statements = Mapping[int, str]
# A line of a file: a statement, or a question with its answer and its supporting lines.
Line = str | tuple[str, str, tuple[int, ...]]

VECTORS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
VECTORS |= {"above": (0, 1), "below": (0, -1), "to the right of": (1, 0), "to the left of": (-1, 0)}
PLURALS = {"mice": "mouse", "wolves": "wolf", "cats": "cat", "sheep": "sheep"}
AIMS = {"tired": "bedroom", "hungry": "kitchen", "thirsty": "kitchen", "bored": "garden"}
THINGS = {"tired": "pajamas", "hungry": "apple", "thirsty": "milk", "bored": "football"}


def parsed(lines: list[str]) -> list[Line]:
    """Reads a story's lines in bAbI's format."""
    story: list[Line] = []
    for number, line in enumerate(lines, start=1):
        first, _, text = line.partition(" ")
        assert first == str(number)
        question, *rest = text.split("\t")
        story.append(
            (question.strip(), rest[0], tuple(map(int, rest[1].split()))) if rest else text
        )
    return story


def story(task: int, seed: object, size: StorySize | None = None) -> list[Line]:
    return parsed(list(file_lines(SIMULATORS[task](random.Random(f"{seed}"), size or StorySize()))))


def matched(pattern: str, text: str) -> tuple[str, ...]:
    found = re.fullmatch(pattern, text)
    assert found, text
    return found.groups()


def places(statements: Statements, pattern: str, origin: str) -> dict[str, tuple[int, int]]:
    """Returns where everything lies that is connected with `origin`, as the statements (thing,
    side, other thing) say.
    """
    facts = [matched(pattern, text) for text in statements.values()]
    found = {origin: (0, 0)}
    for _ in facts:
        for thing, side, other in facts:
            x, y = VECTORS[side]
            if other in found:
                found.setdefault(thing, (found[other][0] + x, found[other][1] + y))
            if thing in found:
                found.setdefault(other, (found[thing][0] - x, found[thing][1] - y))
    return found


ROOMS = r"The (\w+) is (\w+) of the (\w+)\."
SHAPES = r"The ([\w ]+?) is (above|below|to the left of|to the right of) the ([\w ]+)\."


def answer4(statements: Statements, question: str) -> str:
    if question.startswith("What is the "):
        other, side = matched(r"What is the (\w+) (\w+) of\?", question)
        x, y = VECTORS[side]
        wanted = (-x, -y)
    else:
        side, other = matched(r"What is (\w+) of the (\w+)\?", question)
        wanted = VECTORS[side]
    found = places(statements, ROOMS, other)
    (answer,) = [room for room, place in found.items() if place == wanted]
    return answer


def answer15(statements: Statements, question: str) -> str:
    (name,) = matched(r"What is (\w+) afraid of\?", question)
    facts = list(statements.values())
    (kind,) = [
        text.split()[-1].rstrip(".") for text in facts if text.lower().startswith(f"{name} is a ")
    ]
    (feared,) = [
        text.split()[-1].rstrip(".")
        for text in facts
        if PLURALS.get(text.split()[0].lower()) == kind
    ]
    return PLURALS[feared]


def answer16(statements: Statements, question: str) -> str:
    """The color of that animal of the same kind, other than the one asked about, whose kind is told
    last.
    """
    (name,) = matched(r"What color is (\w+)\?", question)
    kinds = [
        matched(r"(\w+) is a (\w+)\.", text) for text in statements.values() if " is a " in text
    ]
    colors = dict(
        matched(r"(\w+) is (\w+)\.", text) for text in statements.values() if " is a " not in text
    )
    assert name not in colors
    alike = [other for other, kind in kinds if kind == dict(kinds)[name] and other != name]
    return colors[alike[-1]]


def answer17(statements: Statements, question: str) -> str:
    first, side, last = matched(
        r"Is the ([\w ]+?) (above|below|to the left of|to the right of) the ([\w ]+)\?", question
    )
    x, y = places(statements, SHAPES, last)[first]
    return "yes" if x * VECTORS[side][0] + y * VECTORS[side][1] > 0 else "no"


def answer18(statements: Statements, question: str) -> str:
    if question.startswith("Does"):
        small, large = matched(r"Does the ([\w ]+) fit in the ([\w ]+)\?", question)
    else:
        large, small = matched(r"Is the ([\w ]+) bigger than the ([\w ]+)\?", question)
    inside: dict[str, set[str]] = {}
    for text in statements.values():
        if " fits " in text:
            less, more = matched(r"The ([\w ]+) fits inside the ([\w ]+)\.", text)
        else:
            more, less = matched(r"The ([\w ]+) is bigger than the ([\w ]+)\.", text)
        inside.setdefault(less, set()).add(more)

    def larger(thing: str) -> set[str]:
        return inside.get(thing, set()).union(
            *(larger(other) for other in inside.get(thing, set()))
        )

    assert (large in larger(small)) != (small in larger(large))
    return "yes" if large in larger(small) else "no"


def answer19(statements: Statements, question: str) -> str:
    start, end = matched(r"How do you go from the (\w+) to the (\w+)\?", question)
    ways: dict[str, list[tuple[str, str]]] = {}
    for text in statements.values():
        room, side, other = matched(ROOMS, text)
        back = {"north": "s", "south": "n", "east": "w", "west": "e"}[side]
        ways.setdefault(other, []).append((side[0], room))
        ways.setdefault(room, []).append((back, other))
    paths = [([start], "")]
    while paths:
        (visited, told), *paths = paths
        if visited[-1] == end:
            return told.lstrip(",")
        paths += [
            ([*visited, room], f"{told},{step}")
            for step, room in ways[visited[-1]]
            if room not in visited
        ]
    raise AssertionError(question)


def answer20(statements: Statements, question: str) -> str:
    who, verb, thing = matched(
        r"(?:Where will|Why did) (\w+) (go|get)(?: to)?(?: the)?(?: (\w+))?\?", question
    )
    motives = dict(
        matched(r"(\w+) is (\w+)\.", text.lower()) for text in statements.values() if " is " in text
    )
    if thing is not None:
        assert thing == {"go": AIMS, "get": THINGS}[verb][motives[who]]
        return motives[who]
    return AIMS[motives[who]]


Reader = Callable[[Statements, str], str]
ANSWERS: dict[int, Reader] = dict(
    zip(TASKS, (answer4, answer15, answer16, answer17, answer18, answer19, answer20), strict=True)
)


def check_answers(task: int, told: list[Line]) -> None:
    """Asserts that each answer follows from the statements before its question, and from those
    alone that support it.
    """
    statements: dict[int, str] = {}
    for number, line in enumerate(told, start=1):
        if isinstance(line, str):
            statements[number] = line
            continue
        question, answer, support = line
        assert ANSWERS[task](statements, question) == answer
        assert len(support) == len({*support})
        assert ANSWERS[task]({fact: statements[fact] for fact in support}, question) == answer


SIZES = {
    4: [(length, 3, distractors) for length in range(2, 6) for distractors in range(6 - length)],
    15: [(length, 2, 0) for length in range(2, 9)],
    16: [(length, 1, 0) for length in (3, 5, 7, 9)],
    17: [(length, 3, distractors) for length in range(2, 6) for distractors in range(6 - length)],
    18: [(length, 4, 0) for length in (2, 3, 8, 20)],
    19: [(length, 1, distractors) for length in range(1, 6) for distractors in range(1, 6 - length)]
    + [(5, 1, 0)],
    20: [(length, min(length, 2), 0) for length in range(1, 10)],
}


@pytest.mark.parametrize(
    ("task", "size"),
    [(task, StorySize(*size)) for task, sizes in SIZES.items() for size in sizes],
    ids=str,
)
def test_stories_have_the_size_asked_for(task: int, size: StorySize) -> None:
    for seed in range(5):
        told = story(task, seed, size)
        check_answers(task, told)
        statements = sum(isinstance(line, str) for line in told)
        assert len(told) - statements == size.questions
        wanted = size.length + size.distractors
        assert statements == wanted or (task == 18 and statements % size.length == 0)


@pytest.mark.parametrize("task", [4, 19])
def test_all_of_a_longer_story_is_told_but_distractors_bear_on_no_question(task: int) -> None:
    asked: set[int] = set()
    told: set[str] = set()
    for seed in range(30):
        size = StorySize(length=3, questions=1 if task == 19 else 20, distractors=2)
        lines = story(task, seed, size)
        supporting = {number for line in lines if not isinstance(line, str) for number in line[2]}
        asked.add(len(supporting))
        told |= {line for line in lines if isinstance(line, str)}
    assert asked == {3}
    assert len(told) > 60
