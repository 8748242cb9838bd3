"""The stories of a simulator: statements and questions, and how they become lines of a file in
bAbI's format.

How it is used::

    def simulate_task1(draws: random.Random, size: StorySize) -> list[str | Question]: ...

    lines = file_lines(simulate_task1(random.Random("0/1/train/7"), StorySize()))

How it works: a story is a list in the order of its file's lines; lines are numbered from 1,
questions counted, and a question names the lines that support its answer by these numbers, in the
order in which the official files give them.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ut_tf.errors import UserError

LARGEST_SIZE = 10_000_000
MANY = 1000


@dataclass(frozen=True)
class Question:
    """A question with its answer.

    Args:
      text: with its question mark.
      answer: one word, or several with commas between, as in the official files.
      supporting: numbers of the lines that the answer follows from.
    """

    text: str
    answer: str
    supporting: tuple[int, ...]


@dataclass(frozen=True)
class StorySize:
    """The length of a story; every 0 stands for what the official files of the task have.

    Args:
      length: statements in a story, distractors left out.
      questions: questions in a story.
      distractors: statements besides, which bear on no question, strewn over the story.
    """

    length: int = 0
    questions: int = 0
    distractors: int = 0


Simulator = Callable[[random.Random, StorySize], list[str | Question]]
"""Plays one story; all its draws come from the given random numbers."""


def number_of(
    task: int, size: StorySize, name: str, official: int, least: int = 1, most: int = MANY
) -> int:
    """The number that `size` asks for or, where that is 0, the official files' own."""
    value: int = getattr(size, name) or official
    if least <= value <= most:
        return value
    if most == 0:
        raise UserError(f"task {task} with `{name}`={value}: it takes no {name}; leave them at 0.")
    raise UserError(
        f"task {task} with `{name}`={value}: expected {least} to {most}, or 0 for what the official"
        " files have."
    )


def numbers_in(value: object) -> list[int]:
    """The whole numbers of an argument that takes one or several; none for another value."""
    several = value if isinstance(value, list | tuple | range) else [value]
    return [*several] if all(type(number) is int for number in several) else []


def check_bounds(**sizes: int) -> None:
    """Raises UserError where a size, by argument name, is more than a lifetime can simulate."""
    for name, value in sizes.items():
        if value > LARGEST_SIZE:
            raise UserError(f"`{name}`={value}: expected at most {LARGEST_SIZE}.")


def file_lines(story: Iterable[str | Question]) -> Iterator[str]:
    """Yields the story's lines in bAbI's format."""
    for number, line in enumerate(story, start=1):
        if isinstance(line, Question):
            yield f"{number} {line.text} \t{line.answer}\t{' '.join(map(str, line.supporting))}"
        else:
            yield f"{number} {line}"
