"""Tells a simulated story: statements in turn, questions, distractors.

How it is used::

    # ["Mary went to the office.", ..., Question("Where is Mary?", "office", (1,)), ...]
    tell(random.Random(7), Walkers, StorySize())

A world makes one statement after the other. For a question it draws one of its latest clauses, so
the first fact that supports an answer is recent, while the others may be far back. Worlds count
statements; lines are numbered here. The official files have a question after every second statement
that leaves anything to ask, and five in all.
"""

import random
from collections.abc import Callable
from typing import Protocol

from ut_tf.errors import UserError
from ut_tf.problems.babi.simulator.story import Question, StorySize

HOUSE = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
TOWN = ("bedroom", "cinema", "kitchen", "office", "park", "school")
FAMILY = ("John", "Mary", "Sandra", "Daniel")
MOVES = ("journeyed to", "moved to", "travelled to", "went back to", "went to")
RECENT_CLAUSES = 5
_QUESTIONS = 5
_STATEMENTS_PER_QUESTION = 2
_TRIES = 5000


class World(Protocol):
    """The world of a story.

    Args:
      sentences_together: a statement whose count is no multiple of this one belongs to the
        statement before it.
      shuffled: whether the statements between two questions are told in another order than they
        happened.
      longest: statements in the longest story there can be.
    """

    sentences_together: int
    shuffled: bool
    longest: float

    def act(self) -> str:
        """Lets something happen and returns the statement that tells it."""

    def ask(self) -> Question | None:
        """A question, supported by statements counted from 0; None where nothing can be asked."""

    def distract(self) -> str:
        """A statement that bears on no question."""


MakeWorld = Callable[[random.Random, bool], World]
"""From draws, and whether there are to be distractors."""


def tell(draws: random.Random, make_world: MakeWorld, size: StorySize) -> list[str | Question]:
    """The lines of one story.

    Args:
      draws: decides everything.
      make_world: makes the world of each try.
      size: with a length, the questions are asked at even distances, the last one at the end; one
        that cannot be asked waits for the next statement, and a story that ends before all are
        asked is played again.

    Raises:
      UserError: there is no such story, or none was found.
    """
    for _ in range(_TRIES):
        world = make_world(draws, size.distractors > 0)
        _check(world, size)
        story = _play(draws, world, size)
        if story is not None:
            return _strew(draws, world, story, size.distractors)
    raise UserError(
        f"`length`={size.length}, `questions`={size.questions or _QUESTIONS}: {_TRIES} stories left"
        " too little to ask; expected longer stories or fewer questions."
    )


def _check(world: World, size: StorySize) -> None:
    if min(size.length, size.questions, size.distractors) < 0:
        raise UserError(f"{size}: expected no number below 0.")
    if size.length > world.longest:
        raise UserError(
            f"`length`={size.length}: a story of this task has at most {world.longest:g}"
            " statements; add distractors instead."
        )
    if size.length % world.sentences_together:
        raise UserError(
            f"`length`={size.length}: the statements of this task come in pairs; expected an even"
            " number."
        )


def _play(draws: random.Random, world: World, size: StorySize) -> list[str | Question] | None:
    """One story, or None where a story of the length has too few questions."""
    wanted, longest = size.questions or _QUESTIONS, size.length or world.longest
    story: list[str | Question] = []
    lines: list[int] = []  # of each statement
    block: list[str] = []
    asked = 0
    while asked < wanted:
        if len(lines) + len(block) == longest:
            return None
        block.append(world.act())
        happened = len(lines) + len(block)
        due = happened % _STATEMENTS_PER_QUESTION == 0
        if size.length:
            due = happened * wanted >= (asked + 1) * size.length
        question = world.ask() if due else None
        if question is None:
            continue
        order = _one_cycle(draws, len(block)) if world.shuffled else list(range(len(block)))
        lines += [len(story) + 1 + order.index(count) for count in range(len(block))]
        story += [block[count] for count in order]
        story.append(
            Question(
                question.text, question.answer, tuple(lines[count] for count in question.supporting)
            )
        )
        block, asked = [], asked + 1
    return story


def _one_cycle(draws: random.Random, count: int) -> list[int]:
    """A one-cycle permutation (Sattolo's algorithm): nothing stays, as in the official files."""
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = draws.randrange(last)
        order[last], order[other] = order[other], order[last]
    return order


def _strew(
    draws: random.Random, world: World, story: list[str | Question], distractors: int
) -> list[str | Question]:
    """The story with distractors between its lines, all before the last one."""
    if not distractors:
        return story
    counts = [0]
    for line in story[:-1]:
        counts.append(counts[-1] + isinstance(line, str))
    gaps = [before for before, count in enumerate(counts) if count % world.sentences_together == 0]
    inserted = sorted(draws.choices(gaps, k=distractors))
    moved = [
        number + sum(before < number for before in inserted) for number in range(len(story) + 1)
    ]
    strewn: list[str | Question] = []
    for before, line in enumerate(story):
        strewn += [world.distract() for gap in inserted if gap == before]
        if isinstance(line, Question):
            line = Question(
                line.text, line.answer, tuple(moved[number] for number in line.supporting)
            )
        strewn.append(line)
    return strewn


def cast_and_bystanders(
    draws: random.Random, people: tuple[str, ...], distracted: bool, count: int = 1
) -> tuple[list[str], list[str]]:
    """The people questions may be about and, where there are to be distractors, `count` others."""
    shuffled = draws.sample(people, len(people))
    return (shuffled[count:], shuffled[:count]) if distracted else (shuffled, [])


def another(draws: random.Random, rooms: tuple[str, ...], room: str) -> str:
    """A room that is not `room`."""
    return draws.choice([other for other in rooms if other != room])
