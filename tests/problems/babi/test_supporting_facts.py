"""Simulated stories: an independent reading of them gives the same answers."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.problems.babi.simulator.supporting_facts import (
    DROPS,
    MOVES,
    PEOPLE,
    TAKES,
    simulate,
)
from ut_tf.problems.babi.stories import parse_stories

TINY = {"story_length": 6, "questions_per_story": 2, "train_questions": 40, "test_questions": 9}


def answer(statements: list[str], question: str, complete: bool = True) -> str:
    """Reads the statements from the first to the last and answers the question; knows nothing of
    the simulator's state.

    Only in an incomplete story may a person act whose room has not been told.
    """
    rooms: dict[str, str] = {}
    carried: dict[str, str] = {}
    paths: dict[str, list[str]] = {}
    for statement in statements:
        person, verb, thing = re.fullmatch(r"(\w+) (.*) the (\w+)\.", statement).groups()  # type: ignore[union-attr]
        if verb in MOVES:
            assert rooms.get(person) != thing, "moves to where she is"
            rooms[person] = thing
            for other in [other for other, holder in carried.items() if holder == person]:
                paths[other].append(thing)
        elif verb in TAKES:
            assert thing not in carried, "takes what somebody carries"
            assert person in rooms or not complete
            path = paths.setdefault(thing, [rooms.get(person, "unknown")])
            assert path[-1] == rooms.get(person, "unknown"), "takes what lies elsewhere"
            carried[thing] = person
        else:
            assert verb in DROPS
            # A drop tells where an object is, even to a reader who did not see it taken.
            paths.setdefault(thing, [rooms[person]])
            carried.pop(thing, None)
    if found := re.fullmatch(r"Where is (?:the )?(\w+)\?", question):
        return rooms[found[1]] if found[1] in PEOPLE else paths[found[1]][-1]
    thing, room = re.fullmatch(r"Where was the (\w+) before the (\w+)\?", question).groups()  # type: ignore[union-attr]
    path = paths[thing]
    return path[len(path) - 1 - path[::-1].index(room) - 1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([1, 2, 3]), st.integers(4, 30), st.integers(1, 5))
def test_answers_follow_from_the_stories_and_from_the_supporting_facts(
    seed: int, task: int, length: int, questions: int
) -> None:
    questions = min(questions, length // 2)
    lines = list(simulate(str(seed), task, 2 * questions, length, questions))
    story: dict[int, str] = {}
    for line in lines:
        number, _, text = line.partition(" ")
        if number == "1":
            story = {}
        if "\t" not in text:
            story[int(number)] = text
            continue
        question, told, support = (part.strip() for part in text.split("\t"))
        assert answer(list(story.values()), question) == told
        supporting = [story[int(fact)] for fact in support.split()]
        assert len(supporting) == len({*support.split()}) == task
        assert answer(supporting, question, complete=False) == told
    assert sum("\t" in line for line in lines) == 2 * questions


def test_files_are_in_babis_format_and_decided_by_the_seed() -> None:
    lines = list(simulate("1", 2, 10, 8, 3))
    stories = list(parse_stories(lines, 2, "file"))
    assert [len(story.questions) for story in stories] == [3, 3, 3, 1]
    assert all(len(story.sentences) == 8 and story.positions[-1] == 8 for story in stories)
    assert lines == list(simulate("1", 2, 10, 8, 3))
    assert lines != list(simulate("2", 2, 10, 8, 3))
