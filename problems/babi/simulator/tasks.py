"""bAbI's twenty tasks, simulated: as many stories and as long as asked for, without a download.

How it is used::

    problem = SimulatedTasks(tasks=2, story_length=40, distractors=20)
    write_task(Path("qa2_train.txt"), task=2, questions=1000, size=StorySize(), seed=7)

Each task has a simulator (``rooms``, ``objects``, ``places``, ``relations``) that plays a story by
the random numbers of (seed, task, number of the story), with the sentences, words and frequencies
counted in bAbI tasks 1-20 v1.2.
"""

import functools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from ut_tf.errors import UserError
from ut_tf.problems.babi.held_out import simulate_splits
from ut_tf.problems.babi.simulator import objects, places, relations, rooms
from ut_tf.problems.babi.simulator.story import (
    Question,
    Simulator,
    StorySize,
    check_bounds,
    file_lines,
    numbers_in,
)
from ut_tf.problems.babi.simulator.storytelling import MakeWorld, tell
from ut_tf.problems.babi.stories import ALL_TASKS, Story, default_facts, parse_stories, tasks_label
from ut_tf.problems.babi.story_questions import StoryQuestions
from ut_tf.storage.files import write_text


def _told(make_world: MakeWorld) -> Simulator:
    return lambda draws, size: tell(draws, make_world, size)


SIMULATORS: dict[int, Simulator] = {
    1: _told(rooms.Rooms),
    2: _told(objects.WhereObjectIs),
    3: _told(objects.WhereObjectWas),
    4: places.simulate_task4,
    5: _told(objects.WhoGave),
    6: _told(objects.WhetherIn),
    7: _told(objects.HowMany),
    8: _told(objects.WhatCarried),
    9: _told(rooms.Negated),
    10: _told(rooms.Indefinite),
    11: _told(rooms.Referred),
    12: _told(functools.partial(rooms.Rooms, people_at_once=2)),
    13: _told(functools.partial(rooms.Referred, people_at_once=2)),
    14: _told(rooms.Timed),
    15: relations.simulate_task15,
    16: relations.simulate_task16,
    17: places.simulate_task17,
    18: relations.simulate_task18,
    19: places.simulate_task19,
    20: relations.simulate_task20,
}
_OFFICIAL = StorySize()


class SimulatedTasks(StoryQuestions):
    """Questions about simulated stories of bAbI's tasks.

    Args:
      tasks: the task or tasks whose questions are asked; vocabularies and answers are theirs alone.
      train_questions: questions per task; the last stories, with 10 % of them, are the validation
        split.
      test_questions: questions per task in the test split.
      story_length: statements in a story, distractors left out; 0: as in the official files.
      distractors: statements besides in each story that bear on no question.
      questions_per_story: 0: as in the official files.
      seed: decides the stories.
      form: "facts" (a row for each fact, the question last) or "tokens" (one sequence).
      max_facts: facts before a question; 0: 130 for task 3 alone, otherwise 70, and more where
        longer stories or distractors are asked for.
      disjoint_splits: whether questions for validation and test that are trained on, too, are left
        out.
      name: the problem's name, for messages.

    Raises:
      UserError: a number is out of range. When the stories are made: a task has no such stories.
    """

    def __init__(
        self,
        tasks: tuple[int, ...] | int = ALL_TASKS,
        train_questions: int = 10_000,
        test_questions: int = 1000,
        story_length: int = 0,
        distractors: int = 0,
        questions_per_story: int = 0,
        seed: int = 0,
        form: Literal["facts", "tokens"] = "facts",
        max_facts: int = 0,
        disjoint_splits: bool = True,
        name: str = "babi_sim_all_tasks",
    ) -> None:
        self.tasks = tuple(sorted({*numbers_in(tasks)}))
        if not self.tasks or not {*self.tasks} <= {*ALL_TASKS}:
            raise UserError(f"`tasks`={tasks}: expected numbers from 1 to 20.")
        if train_questions < 2 or test_questions < 1:
            raise UserError(
                f"`train_questions`={train_questions}, `test_questions`={test_questions}: expected"
                " at least 2 for training, 1 for the test."
            )
        if min(story_length, distractors, questions_per_story) < 0:
            raise UserError(
                f"`story_length`={story_length}, `distractors`={distractors},"
                f" `questions_per_story`={questions_per_story}: expected no number below 0."
            )
        self.size, self.seed = StorySize(story_length, questions_per_story, distractors), seed
        check_bounds(
            story_length=story_length,
            questions_per_story=questions_per_story,
            train_questions=train_questions,
            test_questions=test_questions,
        )
        self._questions = {"train": train_questions, "test": test_questions}
        label = tasks_label(self.tasks)
        stories = f"l{story_length}_d{distractors}_q{questions_per_story}"
        sizes = f"{stories}_n{train_questions}_t{test_questions}"
        official = default_facts(self.tasks)
        facts = max_facts or max(official, (story_length or official) + distractors)
        config = f"simulated_{label}_{sizes}_s{seed}"
        super().__init__(name, config, form, facts, disjoint_splits=disjoint_splits)

    def stories(self, tmp_dir: Path) -> dict[str, list[Story]]:
        """The simulated stories of each split."""
        facts = self.max_facts if self.disjoint_splits else None
        return simulate_splits(self._played, self.tasks, self._questions, facts)

    def data_note(self, data_dir: Path) -> str:
        """A note that the data is simulated."""
        return "simulated"

    def _played(self, task: int, part: str, questions: int) -> list[Story]:
        lines = simulate_lines(task, questions, self.size, f"{self.seed}/{part}")
        return list(parse_stories(lines, task, f"{self.name}, task {task}, {part}"))


def simulate_lines(
    task: int, questions: int, size: StorySize = _OFFICIAL, seed: int | str = 0
) -> Iterator[str]:
    """Yields the lines of a simulated file of a task.

    Args:
      task: 1 to 20.
      questions: questions in the file; the last story ends with the last of them.
      size: of the stories.
      seed: decides every line.

    Raises:
      UserError: the task has no stories of this size.
    """
    if task not in SIMULATORS:
        raise UserError(f"`task`={task}: expected a number from 1 to 20.")
    asked = number = 0
    while asked < questions:
        story = list(
            _first_questions(
                SIMULATORS[task](random.Random(f"{seed}/{task}/{number}"), size), questions - asked
            )
        )
        yield from file_lines(story)
        asked, number = asked + sum(isinstance(line, Question) for line in story), number + 1


def write_task(
    path: Path, task: int, questions: int, size: StorySize = _OFFICIAL, seed: int | str = 0
) -> None:
    """Writes the lines of ``simulate_lines`` to a file, in bAbI's format."""
    write_text(path, "".join(f"{line}\n" for line in simulate_lines(task, questions, size, seed)))


def _first_questions(story: Iterable[str | Question], count: int) -> Iterator[str | Question]:
    """Yields the lines of a story up to its question number `count`."""
    for line in story:
        yield line
        count -= isinstance(line, Question)
        if not count:
            return
