"""A reader of bAbI's stories that works out every answer for itself."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TypeAlias

from ut_tf.problems.babi.simulator.story import Question

MOVE = "(?:journeyed to|moved to|travelled to|went back to|went to) the R"
TAKE, DROP, GIVE = (
    "(?:got|grabbed|picked up|took) the O",
    "(?:discarded|dropped|left|put down) the O",
    "(?:gave|handed|passed) the O to P",
)
NEXT = "(?:After that|Afterwards|Following that|Then)"
TIME = "(?:yesterday|this morning|this afternoon|this evening)"
MOVED = MOVE.replace("R", r"(\w+)")
Line: TypeAlias = str | Question


class Reader:
    """Reads statements from the first to the last and answers questions; knows nothing of the
    simulators' state.

    Only in an incomplete story may something lie elsewhere, or be in other hands, than has been
    told.
    """

    def __init__(self, told: list[str], complete: bool = True) -> None:
        self.complete = complete
        self.named: list[str] = []
        self.trails: dict[str, list[str]] = defaultdict(list)
        self.possible: dict[str, set[str]] = {}
        self.not_in: dict[str, str] = {}
        self.times: dict[str, dict[str, str]] = defaultdict(dict)
        self.holders: dict[str, str] = {}
        self.lying: dict[str, str] = {}
        self.paths: dict[str, tuple[str, int, int | None]] = {}
        self.firsts: dict[str, list[str]] = defaultdict(list)
        self.gifts: list[tuple[str, str, str]] = []
        for sentence in told:
            self.read(sentence)

    def read(self, sentence: str) -> None:
        if found := re.search(rf"\b({TIME})\b", sentence.lower()):
            who, room = re.search(rf"([A-Z]\w+) {MOVED}", sentence).groups()  # type: ignore[union-attr]
            assert found[1] not in self.times[who], "in two rooms at one time"
            self.times[who][found[1]] = room
        elif found := re.fullmatch(rf"(?:{NEXT} )?(\w+(?: and \w+)?) {MOVED}\.", sentence):
            self.move(found[1], found[2])
        elif found := re.fullmatch(
            r"(\w+) is (no longer|not|either)? ?in the (\w+)(?: or the (\w+))?\.", sentence
        ):
            self.state(*found.groups())
        else:
            who, verb, thing, receiver = re.fullmatch(
                r"(\w+) (.*?) the (\w+)(?: there| to (\w+))?\.", sentence
            ).groups()  # type: ignore[union-attr]
            self.handle(who, verb, thing, receiver)

    def move(self, who: str, room: str) -> None:
        if who in ("he", "she"):
            assert (self.named[0] in ("Daniel", "John")) == (who == "he")
        if who not in ("he", "she", "they"):
            self.named = who.split(" and ")
        for person in self.named:
            assert not self.complete or self.possible.get(person) != {room}, "moves to where she is"
            self.trails[person].append(room)
            self.possible[person] = {room}
            self.not_in.pop(person, None)

    def state(self, who: str, how: str | None, room: str, other: str | None) -> None:
        self.not_in.pop(who, None)
        if how in ("no longer", "not"):
            assert not self.complete or self.possible.get(who, {room}) == {room}
            self.possible.pop(who, None)
            self.not_in[who] = room
        else:
            self.possible[who] = {room, other or room}
            # "either in the park or the park" counts as not certain.
            self.trails[who].append("?" if other else room)

    def handle(self, who: str, verb: str, thing: str, receiver: str | None) -> None:
        if thing not in self.firsts[who]:
            self.firsts[who].append(thing)
        holder = self.holders.pop(thing, None)
        if receiver:
            assert not self.complete or holder == who
            self.holders[thing] = receiver
            self.gifts.append((who, thing, receiver))
        elif re.fullmatch(TAKE, f"{verb} the O"):
            here = self.trails[who][-1:]
            assert not self.complete or holder is None
            assert not self.complete or not here or self.lying.get(thing, here[0]) == here[0]
            self.holders[thing] = who
            self.paths[thing] = (who, len(self.trails[who]), None)
        else:
            assert not self.complete or holder == who
            start = self.paths[thing][1] if thing in self.paths else 0
            self.paths[thing] = (who, start, len(self.trails[who]))
            self.lying.pop(thing, None)
            if self.trails[who]:
                self.lying[thing] = self.trails[who][-1]

    def answer(self, question: str) -> str:
        if found := re.fullmatch(r"Is (\w+) in the (\w+)\?", question):
            return self.whether(*found.groups())
        if found := re.fullmatch(r"Where is the (\w+)\?", question):
            holder = self.holders.get(found[1])
            return self.trails[holder][-1] if holder else self.lying[found[1]]
        if found := re.fullmatch(r"Where is (\w+)\?", question):
            return self.trails[found[1]][-1]
        if found := re.fullmatch(r"Where was the (\w+) before the (\w+)\?", question):
            who, start, end = self.paths[found[1]]
            return before(self.trails[who][start:end], found[2])
        if found := re.fullmatch(r"Where was (\w+) before the (\w+)\?", question):
            times = [
                time
                for time in ("yesterday", "this morning", "this afternoon", "this evening")
                if time in self.times[found[1]]
            ]
            return before([self.times[found[1]][time] for time in times], found[2])
        if found := re.fullmatch(r"(?:How many objects|What) is (\w+) carrying\?", question):
            carried = [
                thing for thing in self.firsts[found[1]] if self.holders.get(thing) == found[1]
            ]
            count = sum(holder == found[1] for holder in self.holders.values())
            return (
                ("none", "one", "two", "three")[count]
                if question.startswith("How")
                else ",".join(carried) or "nothing"
            )
        return self.giving(question)

    def whether(self, who: str, room: str) -> str:
        if who in self.not_in:
            assert self.not_in[who] == room, "cannot be known"
            return "no"
        if room not in self.possible[who]:
            return "no"
        return "maybe" if self.trails[who][-1] == "?" else "yes"

    def giving(self, question: str) -> str:
        giver, thing, receiver = (
            re.search(r"did (\w+) give", question),
            re.search(r"the (\w+)", question),
            re.search(r"to (\w+)\?", question),
        )
        fitting = [
            gift
            for gift in self.gifts
            if all(
                found is None or found[1] == part
                for found, part in zip((giver, thing, receiver), gift, strict=True)
            )
        ]
        who, what, whom = fitting[-1]
        return (
            what
            if question.startswith("What")
            else who
            if question.startswith("Who gave")
            else whom
        )


def before(path: list[str], room: str) -> str:
    return path[len(path) - 1 - path[::-1].index(room) - 1]
