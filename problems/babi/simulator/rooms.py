"""Simulated bAbI tasks about who is in which room: 1 (where), 9 (no longer), 10 (either ... or), 11
to 13 (she, they, and), 14 (when).

How it is used::

    # ["Mary went to the office.", "Then she moved to the garden.", Question(...), ...]
    tell(random.Random(7), Referred, StorySize())

How it works: people move from room to room. A world keeps for each of its clauses whom it is about,
and asks about one of the latest; a statement about two people counts as two clauses.
"""

import random
from typing import ClassVar

from ut_tf.problems.babi.simulator.story import Question
from ut_tf.problems.babi.simulator.storytelling import (
    FAMILY,
    HOUSE,
    MOVES,
    RECENT_CLAUSES,
    TOWN,
    another,
    cast_and_bystanders,
)

TOWNSPEOPLE = ("Bill", "Fred", "Julie", "Mary")
PRONOUNS = {"Daniel": "he", "John": "he", "Mary": "she", "Sandra": "she"}
NEXT = ("After that", "Afterwards", "Following that", "Then")
TIMES = ("yesterday", "this morning", "this afternoon", "this evening")
_YES = 0.5


class Rooms:
    """Tasks 1 and, with two people at a time, 12; see ``storytelling.World`` for what is here with
    the same names there.

    Args:
      draws: decides everything.
      distracted: whether there are bystanders.
      people_at_once: who move together.
    """

    people: ClassVar[tuple[str, ...]] = FAMILY
    places: ClassVar[tuple[str, ...]] = HOUSE
    sentences_together = 1
    shuffled = False
    longest = float("inf")

    def __init__(self, draws: random.Random, distracted: bool, people_at_once: int = 1) -> None:
        self.draws = draws
        self.people_at_once = people_at_once
        self.cast, self.bystanders = cast_and_bystanders(
            draws, self.people, distracted, people_at_once
        )
        self.rooms = {
            person: draws.choice(self.places) for person in (*self.cast, *self.bystanders)
        }
        self.told = 0
        self.clauses: list[str] = []
        self.support: dict[str, tuple[int, ...]] = {}

    def act(self) -> str:
        """Lets somebody move, or two together."""
        people = self.draws.sample(self.cast, self.people_at_once)
        statement = f"{' and '.join(people)} {self.move(people)}"
        self.tell_of(people, (self.told,))
        return f"{statement}."

    def distract(self) -> str:
        """Lets somebody move, or two together, whom no question is about."""
        people = self.draws.sample(self.bystanders, len(self.bystanders))
        return f"{' and '.join(people)} {self.move(people)}."

    def ask(self) -> Question | None:
        """Asks about a person of one of the latest clauses."""
        return self.ask_about(self.draws.choice(self.clauses[-RECENT_CLAUSES:]))

    def ask_about(self, person: str) -> Question:
        """A question about a person."""
        return Question(f"Where is {person}?", self.rooms[person], self.support[person])

    def move(self, people: list[str]) -> str:
        """Moves people to a room where none of them is; returns the verb and the room."""
        here = {self.rooms[person] for person in people}
        room = self.draws.choice([other for other in self.places if other not in here])
        self.rooms.update(dict.fromkeys(people, room))
        return f"{self.draws.choice(MOVES)} the {room}"

    def tell_of(self, people: list[str], support: tuple[int, ...]) -> None:
        """Counts a statement about people, and keeps which statements now tell where they are."""
        self.support.update(dict.fromkeys(people, support))
        self.clauses += people
        self.told += 1


class Referred(Rooms):
    """Tasks 11 and, with two people at a time, 13: each move is followed by another one of the same
    people, who are then called by a pronoun.
    """

    sentences_together = 2

    def __init__(self, draws: random.Random, distracted: bool, people_at_once: int = 1) -> None:
        super().__init__(draws, distracted, people_at_once)
        self.named: list[str] = []

    def act(self) -> str:
        """Tells a move by names, and every second one by a pronoun."""
        support: tuple[int, ...] = (self.told,)
        if self.told % 2 == 0:
            self.named = self.draws.sample(self.cast, self.people_at_once)
            subject = " and ".join(self.named)
        else:
            pronoun = PRONOUNS[self.named[0]] if len(self.named) == 1 else "they"
            subject = f"{self.draws.choice(NEXT)} {pronoun}"
            support = (self.told - 1, self.told)
        statement = f"{subject} {self.move(self.named)}."
        self.tell_of(self.named, support)
        return statement

    def ask(self) -> Question | None:
        return super().ask() if self.told % 2 == 0 else None


class Negated(Rooms):
    """Task 9. Who "is no longer" in a room has gone to another one, which is not told."""

    def __init__(self, draws: random.Random, distracted: bool) -> None:
        super().__init__(draws, distracted)
        self.left: dict[str, str] = {}

    def act(self) -> str:
        person, kind = self.draws.choice(self.cast), self.draws.random()
        room = self.rooms[person]
        move = self.move([person])
        self.left.pop(person, None)
        if kind < 0.25:
            self.left[person] = room
            move = f"{self.draws.choice(('is not', 'is no longer'))} in the {room}"
        elif kind < 0.5:
            move = f"is in the {self.rooms[person]}"
        self.tell_of([person], (self.told,))
        return f"{person} {move}."

    def ask_about(self, person: str) -> Question:
        """Asks whether somebody is in the room that she is said to be in or not to be in, or, in
        the former case, in another one.
        """
        right = person not in self.left and self.draws.random() < _YES
        room = self.left.get(person, self.rooms[person])
        if person not in self.left and not right:
            room = another(self.draws, self.places, room)
        return Question(
            f"Is {person} in the {room}?", "yes" if right else "no", self.support[person]
        )


class Indefinite(Rooms):
    """Task 10. One of the two rooms in "either ... or" is drawn from all, so that sometimes it is
    the same, as in the official files.
    """

    people = TOWNSPEOPLE
    places = TOWN

    def __init__(self, draws: random.Random, distracted: bool) -> None:
        super().__init__(draws, distracted)
        self.possible: dict[str, list[str]] = {}

    def act(self) -> str:
        person, kind = self.draws.choice(self.cast), self.draws.random()
        move = self.move([person])
        self.possible[person] = [self.rooms[person]]
        if kind < 0.25:
            rooms = self.possible[person] = [self.rooms[person], self.draws.choice(self.places)]
            self.draws.shuffle(rooms)
            move = f"is either in the {rooms[0]} or the {rooms[1]}"
        elif kind < 0.5:
            move = f"is in the {self.rooms[person]}"
        self.tell_of([person], (self.told,))
        return f"{person} {move}."

    def ask_about(self, person: str) -> Question:
        """Asks whether somebody is in the room where she is or in another one."""
        room, possible = self.rooms[person], self.possible[person]
        if self.draws.random() >= _YES:
            room = another(self.draws, self.places, room)
        answer = "no" if room not in possible else "yes" if len(possible) == 1 else "maybe"
        return Question(f"Is {person} in the {room}?", answer, self.support[person])


class Timed(Rooms):
    """Task 14. Each person moves at most once at each time; the latest clauses are those that
    happened last, not those told last.
    """

    people = TOWNSPEOPLE
    places = TOWN
    shuffled = True

    def __init__(self, draws: random.Random, distracted: bool) -> None:
        super().__init__(draws, distracted)
        self.longest = float(len(self.cast) * len(TIMES))
        self.visits: dict[str, list[tuple[str, int]]] = {person: [] for person in self.people}
        self.order: list[tuple[str, int]] = []

    def act(self) -> str:
        person = self.draws.choice(
            [person for person in self.cast if len(self.visits[person]) < len(TIMES)]
        )
        statement = self._timed([person], TIMES[len(self.visits[person])])
        self.order.append((person, len(self.visits[person])))
        self.visits[person].append((self.rooms[person], len(self.order) - 1))
        return statement

    def distract(self) -> str:
        return self._timed(self.bystanders, self.draws.choice(TIMES))

    def ask(self) -> Question | None:
        """Asks where somebody was before a room that she came to lately, where she has not been
        again since.
        """
        choices = [
            (person, at)
            for person, at in self.order[-RECENT_CLAUSES:]
            if at and self._is_last(person, at)
        ]
        if not choices:
            return None
        person, at = self.draws.choice(choices)
        (before, told_before), (room, told) = self.visits[person][at - 1 : at + 1]
        return Question(f"Where was {person} before the {room}?", before, (told, told_before))

    def _is_last(self, person: str, at: int) -> bool:
        visits = self.visits[person]
        return visits[at][0] not in (room for room, _ in visits[at + 1 :])

    def _timed(self, people: list[str], time: str) -> str:
        (person,) = people
        move = self.move(people)
        return self.draws.choice(
            (f"{time[0].upper()}{time[1:]} {person} {move}.", f"{person} {move} {time}.")
        )
