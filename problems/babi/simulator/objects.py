"""Simulated bAbI tasks about objects: 2 and 3 (where they are and were), 5 (who gave them), 6
(where people are), 7 and 8 (who has them).

How it is used::

    # ["Mary got the milk there.", ..., Question("Where is the milk?", ...), ...]
    tell(random.Random(7), WhereObjectIs, StorySize())

How it works: people move from room to room, take what lies in their room, drop what they carry and,
in tasks 5 and 7, give it to somebody in the same room. Where they all are at first is not told, so
that one can take an object before her room is known.
"""

import random
from dataclasses import dataclass, field
from typing import ClassVar

from ut_tf.problems.babi.simulator.story import Question
from ut_tf.problems.babi.simulator.storytelling import (
    FAMILY,
    HOUSE,
    MOVES,
    RECENT_CLAUSES,
    another,
    cast_and_bystanders,
)

OBJECTS = ("apple", "football", "milk")
TAKES = ("got", "grabbed", "picked up", "took")
DROPS = ("discarded", "dropped", "left", "put down")
GIVES = ("gave", "handed", "passed")
GIVERS = ("Mary", "Fred", "Bill", "Jeff")
NUMBERS = ("none", "one", "two", "three")
# How often the acts are drawn that a person can do, as counted in the official files.
_MOVE_WEIGHT, _TAKE_WEIGHT, _DROP_WEIGHT, _GIVE_WEIGHT = 5 / 6, 1.0, 1.0, 3.8
_THERE = 0.2
# The room before the last is asked for more often than the one before that, and so on.
_EARLIER = 0.8


@dataclass(frozen=True)
class _Clause:
    """The meaning of one statement; `kind` is the verb's: "move", "take", "drop" or "give"."""

    kind: str
    person: str
    item: str = ""
    receiver: str = ""


@dataclass
class _Journey:
    """The statements about an object since it was last taken, each by its count.

    Args:
      taken: when it was taken.
      stops: (room, when its carrier came there) of each move since.
      dropped: when it was dropped, if it was.
      lies_in: then the room and when its carrier had come there, if that has been told.
    """

    taken: int
    stops: list[tuple[str, int]] = field(default_factory=list)
    dropped: int | None = None
    lies_in: tuple[str, int] | None = None


class _Objects:
    """People, rooms and objects; see ``storytelling.World`` for what has the same name there."""

    people: ClassVar[tuple[str, ...]] = FAMILY
    giving: ClassVar[bool] = False
    takes_there: ClassVar[float] = 1.0
    asked_kinds: ClassVar[tuple[str, ...]] = ("take", "drop", "give")
    sentences_together = 1
    shuffled = False
    longest = float("inf")

    def __init__(self, draws: random.Random, distracted: bool) -> None:
        self.draws = draws
        self.cast, self.bystanders = cast_and_bystanders(draws, self.people, distracted)
        self.rooms = {person: draws.choice(HOUSE) for person in (*self.cast, *self.bystanders)}
        self.lying: dict[str, str] = {item: draws.choice(HOUSE) for item in OBJECTS}
        self.holders: dict[str, str] = {}
        self.clauses: list[_Clause] = []
        self.known: dict[str, tuple[str, int]] = {}
        self.journeys: dict[str, _Journey] = {}

    def act(self) -> str:
        """Draws a person and what she does among all that anybody can do now."""
        here = {
            person: [item for item, room in self.lying.items() if room == self.rooms[person]]
            for person in self.cast
        }
        choices = [(person, "move", _MOVE_WEIGHT) for person in self.cast]
        choices += [(person, "take", _TAKE_WEIGHT) for person in self.cast if here[person]]
        for person in dict.fromkeys(self.holders.values()):
            choices.append((person, "drop", _DROP_WEIGHT))
            if self.giving and self._others_with(person):
                choices.append((person, "give", _GIVE_WEIGHT))
        person, kind, _ = self.draws.choices(choices, [weight for _, _, weight in choices])[0]
        if kind == "move":
            return self._move(person)
        if kind == "take":
            return self._take(person, self.draws.choice(here[person]))
        carried = [item for item in OBJECTS if self.holders.get(item) == person]
        if kind == "give":
            return self._give(person, carried[0])
        return self._drop(person, self.draws.choice(carried))

    def distract(self) -> str:
        """Lets somebody move whom no question is about."""
        person = self.draws.choice(self.bystanders)
        self.rooms[person] = another(self.draws, HOUSE, self.rooms[person])
        return f"{person} {self.draws.choice(MOVES)} the {self.rooms[person]}."

    def ask(self) -> Question | None:
        """Asks about one of the latest clauses."""
        clauses = [clause for clause in self.clauses[-RECENT_CLAUSES:] if self.can_ask(clause)]
        return self.ask_about(self.draws.choice(clauses)) if clauses else None

    def can_ask(self, clause: _Clause) -> bool:
        """Whether what has been told answers a question about this clause's person or object."""
        return clause.kind in self.asked_kinds

    def ask_about(self, clause: _Clause) -> Question:
        """A question about a clause's person or object."""
        raise NotImplementedError

    def _move(self, person: str) -> str:
        room = self.rooms[person] = another(self.draws, HOUSE, self.rooms[person])
        self.known[person] = (room, len(self.clauses))
        for item, holder in self.holders.items():
            if holder == person:
                self.journeys[item].stops.append(self.known[person])
        self.clauses.append(_Clause("move", person))
        return f"{person} {self.draws.choice(MOVES)} the {room}."

    def _take(self, person: str, item: str) -> str:
        del self.lying[item]
        self.holders[item] = person
        self.journeys[item] = _Journey(taken=len(self.clauses))
        self.clauses.append(_Clause("take", person, item))
        return f"{person} {self.draws.choice(TAKES)} the {item}{self._there(self.takes_there)}."

    def _drop(self, person: str, item: str) -> str:
        del self.holders[item]
        self.lying[item] = self.rooms[person]
        self.journeys[item].dropped, self.journeys[item].lies_in = (
            len(self.clauses),
            self.known.get(person),
        )
        self.clauses.append(_Clause("drop", person, item))
        return f"{person} {self.draws.choice(DROPS)} the {item}{self._there(_THERE)}."

    def _give(self, person: str, item: str) -> str:
        receiver = self.holders[item] = self._others_with(person)[0]
        self.clauses.append(_Clause("give", person, item, receiver))
        return f"{person} {self.draws.choice(GIVES)} the {item} to {receiver}."

    def _others_with(self, person: str) -> list[str]:
        # In the official files the first of them, in one and the same order of all, is always given
        # the first object.
        return [
            other
            for other in self.people
            if other in self.cast and other != person and self.rooms[other] == self.rooms[person]
        ]

    def _there(self, probability: float) -> str:
        return " there" if self.draws.random() < probability else ""


class WhereObjectIs(_Objects):
    """Task 2. An object that is carried is asked for only when its carrier has moved since she took
    it.
    """

    def can_ask(self, clause: _Clause) -> bool:
        return super().can_ask(clause) and self._place(clause.item) is not None

    def ask_about(self, clause: _Clause) -> Question:
        place, journey = self._place(clause.item), self.journeys[clause.item]
        assert place is not None
        told = journey.taken if journey.dropped is None else journey.dropped
        return Question(f"Where is the {clause.item}?", place[0], (told, place[1]))

    def _place(self, item: str) -> tuple[str, int] | None:
        journey = self.journeys[item]
        if journey.dropped is not None:
            return journey.lies_in
        return journey.stops[-1] if journey.stops else None


class WhereObjectWas(_Objects):
    """Task 3: two rooms that an object came to, one after the other, when it was last carried."""

    takes_there = _THERE

    def ask(self) -> Question | None:
        items = [clause.item for clause in self.clauses[-RECENT_CLAUSES:] if clause.kind != "move"]
        choices = [
            (item, at, back)
            for item in items
            for at, back in self._asked_for(self.journeys[item].stops)
        ]
        if not choices:
            return None
        item, at, _ = self.draws.choices(choices, [_EARLIER**back for _, _, back in choices])[0]
        journey = self.journeys[item]
        told = journey.taken if journey.dropped is None else journey.dropped
        (before, came_before), (room, came) = journey.stops[at - 1], journey.stops[at]
        return Question(
            f"Where was the {item} before the {room}?", before, (told, came, came_before)
        )

    @staticmethod
    def _asked_for(stops: list[tuple[str, int]]) -> list[tuple[int, int]]:
        """Returns (stop, how many stops later than it) of each stop that has one before it and
        whose room does not come again.
        """
        last = len(stops) - 1
        return [
            (at, last - at)
            for at in range(1, last + 1)
            if stops[at][0] not in (room for room, _ in stops[at + 1 :])
        ]


class WhoGave(_Objects):
    """Task 5."""

    people = GIVERS
    giving = True
    asked_kinds = ("give",)

    def ask_about(self, clause: _Clause) -> Question:
        item = clause.item
        gifts = [(at, other) for at, other in enumerate(self.clauses) if other.kind == "give"]
        # Of an object that was given more than once the last time is meant.
        at, last = [(at, other) for at, other in gifts if other.item == item][-1]
        giver, receiver = last.person, last.receiver
        choices = [
            (f"Who gave the {item}?", giver),
            (f"Who gave the {item} to {receiver}?", giver),
            (f"Who received the {item}?", receiver),
            (f"Who did {giver} give the {item} to?", receiver),
        ]
        # A few of the official questions have two answers, where the same people have passed on
        # something else since; here none has.
        if all(
            (other.person, other.receiver) != (giver, receiver)
            for later, other in gifts
            if later > at
        ):
            choices += [(f"What did {giver} give to {receiver}?", item)] * 2
        text, answer = self.draws.choice(choices)
        return Question(text, answer, (at,))


class WhetherIn(_Objects):
    """Task 6."""

    asked_kinds = ("move",)

    def ask_about(self, clause: _Clause) -> Question:
        room, count = self.known[clause.person]
        right = self.draws.random() < 0.5
        asked = room if right else another(self.draws, HOUSE, room)
        return Question(f"Is {clause.person} in the {asked}?", "yes" if right else "no", (count,))


class HowMany(_Objects):
    """Task 7. Only those are asked about who took, dropped or gave something, not those who were
    only given it.
    """

    giving = True

    def ask_about(self, clause: _Clause) -> Question:
        person = clause.person
        number = sum(holder == person for holder in self.holders.values())
        support = [
            at
            for at, other in enumerate(self.clauses)
            if other.kind != "move" and person in (other.person, other.receiver)
        ]
        return Question(f"How many objects is {person} carrying?", NUMBERS[number], tuple(support))


class WhatCarried(_Objects):
    """Task 8. Objects, and the facts that support them, stand in the order in which the person
    first took them.
    """

    def ask_about(self, clause: _Clause) -> Question:
        person = clause.person
        facts: dict[str, list[int]] = {}
        for at, other in enumerate(self.clauses):
            if other.kind != "move" and other.person == person:
                facts.setdefault(other.item, []).append(at)
        carried = [item for item in facts if self.holders.get(item) == person]
        support = tuple(at for told in facts.values() for at in told)
        return Question(f"What is {person} carrying?", ",".join(carried) or "nothing", support)
