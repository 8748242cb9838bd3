"""babi_sim: stories of a small world in bAbI's format, with one, two or three supporting facts.

The world has people, rooms and objects. A person moves to another room, takes an object in the same
room, or drops one that she carries. With one supporting fact the question is where a person is;
with two, where an object is (the room of its holder, or where it was dropped); with three, in which
room an object was before it last came into a given room. (seed, task, split, number of the story)
decide each story. bAbI's own tasks, simulated, are in ``tasks``.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ut_tf.errors import UserError
from ut_tf.problems.babi.held_out import simulate_splits
from ut_tf.problems.babi.simulator.story import Question, check_bounds, file_lines, numbers_in
from ut_tf.problems.babi.stories import Story, parse_stories
from ut_tf.problems.babi.story_questions import StoryQuestions

PEOPLE = ("Anna", "Boris", "Clara", "Dimitri")
ROOMS = ("attic", "cellar", "garage", "library", "pantry", "studio")
OBJECTS = ("coin", "lamp", "letter", "umbrella")
MOVES = ("went to", "moved to", "walked to", "returned to")
TAKES = ("took", "grabbed", "picked up")
_TASKS = (1, 2, 3)
DROPS = ("dropped", "put down", "left")


class SimulatedBabi(StoryQuestions):
    """Questions about simulated stories.

    Args:
      supporting_facts: 1, 2 or 3, which is also the number of the task, or several of them; 0: all
        three tasks jointly.
      story_length: statements in a story, at least 4.
      questions_per_story: questions in a story, asked at even distances in its second half; the
        last one at its end.
      train_questions: questions per task; the last stories, with 10 % of them, are the validation
        split.
      test_questions: questions per task in the test split.
      seed: decides the stories.
      disjoint_splits: whether questions for validation and test that are trained on, too, are left
        out.
      name: the problem's name, for messages.
    """

    def __init__(
        self,
        supporting_facts: int | Sequence[int] = 0,
        story_length: int = 12,
        questions_per_story: int = 4,
        train_questions: int = 10_000,
        test_questions: int = 1000,
        seed: int = 0,
        disjoint_splits: bool = True,
        name: str = "babi_sim",
    ) -> None:
        self.tasks = _tasks(supporting_facts)
        if story_length < 4 or not 1 <= questions_per_story <= story_length // 2:
            raise UserError(
                f"`story_length`={story_length}, `questions_per_story`={questions_per_story}:"
                " expected at least 4 statements, and from 1 question to half as many as"
                " statements."
            )
        if train_questions < 2 * questions_per_story or test_questions < 1:
            raise UserError(
                f"`train_questions`={train_questions}, `test_questions`={test_questions}: expected"
                f" at least two stories' questions ({2 * questions_per_story}) for training and 1"
                " for the test."
            )
        self.story_length, self.questions_per_story, self.seed = (
            story_length,
            questions_per_story,
            seed,
        )
        check_bounds(
            story_length=story_length,
            questions_per_story=questions_per_story,
            train_questions=train_questions,
            test_questions=test_questions,
        )
        self._questions = {"train": train_questions, "test": test_questions}
        label = "sim_task" + "_".join(map(str, self.tasks))
        sizes = f"l{story_length}_q{questions_per_story}_n{train_questions}_t{test_questions}"
        config = f"{label}_{sizes}_s{seed}"
        super().__init__(
            name, config, form="facts", max_facts=story_length, disjoint_splits=disjoint_splits
        )

    def stories(self, tmp_dir: Path) -> dict[str, list[Story]]:
        """The simulated stories of each split."""
        facts = self.max_facts if self.disjoint_splits else None
        return simulate_splits(self._played, self.tasks, self._questions, facts)

    def data_note(self, data_dir: Path) -> str:
        """A note that the stories are not bAbI's."""
        return "simulated stories, not bAbI's"

    def _played(self, task: int, part: str, questions: int) -> list[Story]:
        lines = simulate(
            f"{self.seed}/{task}/{part}",
            task,
            questions,
            self.story_length,
            self.questions_per_story,
        )
        return list(parse_stories(lines, task, f"{self.name}, task {task}, {part}"))


def _tasks(supporting_facts: int | Sequence[int]) -> tuple[int, ...]:
    """The tasks of an argument, in ascending order."""
    several = numbers_in(supporting_facts)
    if several == [0]:
        return _TASKS
    if not several or not {*several} <= {*_TASKS}:
        raise UserError(
            f"`supporting_facts`={supporting_facts}: expected 1, 2 or 3, several of them such as"
            " 1+2, or 0 for all of them."
        )
    return tuple(sorted({*several}))


def simulate(
    seed: str,
    supporting_facts: int,
    num_questions: int,
    story_length: int,
    questions_per_story: int,
) -> Iterator[str]:
    """Yields the lines of a file in bAbI's format with `num_questions` questions.

    Args:
      seed: decides every line.
      supporting_facts: 1, 2 or 3: what is asked.
      num_questions: questions in the file; the last story may have fewer than the others.
      story_length: statements in each story, at least 4.
      questions_per_story: questions in each story, at most half as many.
    """
    asked = 0
    while asked < num_questions:
        draws = random.Random(f"{seed}/{asked}")
        count = min(questions_per_story, num_questions - asked)
        yield from file_lines(_story(draws, supporting_facts, story_length, count))
        asked += count


@dataclass(frozen=True)
class _Visit:
    """An object's coming into a room.

    Args:
      room: where it came.
      arrived: line of its carrier's arrival there.
      taken: line in which the carrier took it.
      came_from: line of the carrier's arrival in the room before.
    """

    room: str
    arrived: int
    taken: int
    came_from: int


@dataclass
class _World:
    """The state of the world that the story has told so far.

    Args:
      people: room of each person who has moved, with the line that told it.
      visits: rooms that each object has been in, one after the other; neighbours differ.
      holders: who carries each object that is carried.
      mentions: the line in which each object was last taken or dropped.
      dropped: the line that told of the arrival of whoever last dropped each object.
    """

    people: dict[str, tuple[str, int]] = field(default_factory=dict)
    visits: dict[str, list[_Visit]] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    mentions: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)

    def carried_by(self, person: str) -> list[str]:
        """The objects that `person` carries."""
        return [item for item, holder in self.holders.items() if holder == person]

    def within_reach(self) -> list[tuple[str, str]]:
        """Each (person, object) where the person's room is known and the object lies there, or has
        not been told of yet.
        """
        free = [item for item in OBJECTS if item not in self.holders]
        return [
            (person, item)
            for person, (room, _) in self.people.items()
            for item in free
            if item not in self.visits or self.visits[item][-1].room == room
        ]


def _story(
    draws: random.Random, supporting_facts: int, story_length: int, num_questions: int
) -> list[str | Question]:
    """One story; stories that leave a question unanswerable are played again."""
    story = None
    while story is None:
        story = _play(draws, supporting_facts, story_length, num_questions)
    return story


def _play(
    draws: random.Random, supporting_facts: int, story_length: int, num_questions: int
) -> list[str | Question] | None:
    """One story, or None where it answers no question of the kind when one is to be asked."""
    world = _World()
    cast = draws.sample(PEOPLE, draws.randint(2, len(PEOPLE)))
    ask_after = {
        story_length - story_length * number // (2 * num_questions)
        for number in range(num_questions)
    }
    story: list[str | Question] = []
    for told in range(1, story_length + 1):
        story.append(_act(draws, world, len(story) + 1, cast))
        if told in ask_after:
            asked = _ask(draws, world, supporting_facts)
            if asked is None:
                return None
            text, answer, support = asked
            story.append(Question(text, answer, tuple(sorted(support))))
    return story


def _act(draws: random.Random, world: _World, line: int, cast: list[str]) -> str:
    """Changes the world and returns the statement that tells it."""
    chance, reachable = draws.random(), world.within_reach()
    if chance < 0.3 and reachable:
        return _take(draws, world, line, *draws.choice(reachable))
    if chance > 0.85 and world.holders:
        return _drop(draws, world, line, draws.choice(sorted(world.holders)))
    return _move(draws, world, line, draws.choice(cast))


def _move(draws: random.Random, world: _World, line: int, person: str) -> str:
    before, came_from = world.people.get(person, ("", 0))
    room = draws.choice([room for room in ROOMS if room != before])
    world.people[person] = (room, line)
    for item in world.carried_by(person):
        world.visits[item].append(_Visit(room, line, world.mentions[item], came_from))
    return f"{person} {draws.choice(MOVES)} the {room}."


def _take(draws: random.Random, world: _World, line: int, person: str, item: str) -> str:
    room, arrived = world.people[person]
    world.visits.setdefault(item, [_Visit(room, arrived, line, arrived)])
    world.holders[item] = person
    world.mentions[item] = line
    return f"{person} {draws.choice(TAKES)} the {item}."


def _drop(draws: random.Random, world: _World, line: int, item: str) -> str:
    person = world.holders.pop(item)
    world.dropped[item] = world.people[person][1]
    world.mentions[item] = line
    return f"{person} {draws.choice(DROPS)} the {item}."


def _ask(
    draws: random.Random, world: _World, supporting_facts: int
) -> tuple[str, str, set[int]] | None:
    """A question that the story answers, the answer, and the lines it follows from, or None."""
    if supporting_facts == 1:
        person = draws.choice(sorted(world.people))
        room, arrived = world.people[person]
        return f"Where is {person}?", room, {arrived}
    if supporting_facts == 2:
        return _ask_where(draws, world)
    return _ask_before(draws, world)


def _ask_where(draws: random.Random, world: _World) -> tuple[str, str, set[int]] | None:
    if not world.visits:
        return None
    item = draws.choice(sorted(world.visits))
    holder = world.holders.get(item)
    arrived = world.people[holder][1] if holder else world.dropped[item]
    return f"Where is the {item}?", world.visits[item][-1].room, {world.mentions[item], arrived}


def _ask_before(draws: random.Random, world: _World) -> tuple[str, str, set[int]] | None:
    """Asks for the room before the last visit to a room."""
    choices = [
        (item, before, visit)
        for item, visits in sorted(world.visits.items())
        for number, (before, visit) in enumerate(itertools.pairwise(visits), start=2)
        if visit.room not in (later.room for later in visits[number:])
    ]
    if not choices:
        return None
    item, before, visit = draws.choice(choices)
    return (
        f"Where was the {item} before the {visit.room}?",
        before.room,
        {visit.came_from, visit.taken, visit.arrived},
    )
