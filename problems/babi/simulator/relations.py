"""Simulated bAbI tasks about relations: rooms in a map (4, 19), shapes in a plane (17), sizes (18),
kinds (15, 16) and motives (20).

How it is used::

    lines = file_lines(simulate_task19(random.Random("0/19/train/7"), StorySize()))

How it works: each function draws a small world and tells it in the way that the official files
show: with their words, sentences and lengths, and with the frequencies that were counted there of
orders, forms, questions, answers and supporting facts. What a ``StorySize`` may ask for stands with
each function; anything else raises UserError, since the official words would not suffice.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ut_tf.errors import UserError
from ut_tf.problems.babi.simulator.story import Question, StorySize
from ut_tf.problems.babi.simulator.storytelling import HOUSE

_SHAPES = ("triangle", "pink rectangle", "blue square", "red sphere", "red square", "yellow square")
_COMPASS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
_PLACES = {"above": (0, 1), "below": (0, -1), "to the right of": (1, 0), "to the left of": (-1, 0)}
_SMALL = ("chocolate", "box of chocolates")
_LARGE = ("box", "chest", "container", "suitcase")
_ANIMALS = {"cat": "cats", "mouse": "mice", "sheep": "sheep", "wolf": "wolves"}
_DEDUCED = ("Emily", "Gertrude", "Jessica", "Winona")
_KINDS = ("frog", "lion", "rhino", "swan")
_COLORS = ("gray", "green", "white", "yellow")
_INDUCED = ("Bernhard", "Brian", "Greg", "Julius", "Lily")
_PEOPLE = ("Antoine", "Jason", "Sumit", "Yann")
_MOTIVES = {
    "bored": ("garden", "football"),
    "hungry": ("kitchen", "apple"),
    "thirsty": ("kitchen", "milk"),
    "tired": ("bedroom", "pajamas"),
}
_GOES = ("journeyed", "moved", "travelled", "went", "went back")
_GETS = ("got", "grabbed", "picked up", "took")
_MANY = 1000

Side = tuple[int, int]
Neighbours = dict[str, dict[str, str]]
"""``neighbours[a][b]``: on which side of b its neighbour a lies."""
Relation = tuple[str, str, str]
"""(a, side, b): a lies on that side of b."""


def simulate_task4(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Returns two-argument relations: rooms in a line, and what lies on which side of which.

    Args:
      draws: random numbers.
      size: length 2 (to 5) statements about a line of one room more; 1 question (any number);
        distractors 0 (to 5 - length), rooms beside the line, about which nothing is asked.

    Raises:
      UserError: the six rooms do not suffice for `size`.
    """
    length = _number(4, size, "length", official=2, least=2, most=5)
    distractors = _number(4, size, "distractors", official=0, least=0, most=5 - length)
    along = draws.choice(list(_COMPASS))
    asked = {along, _opposite(along, _COMPASS)}
    rooms = draws.sample(HOUSE, length + 1 + distractors)
    told = _told(
        draws,
        _map(
            draws,
            rooms,
            [along] * length,
            _COMPASS,
            beside=[side for side in _COMPASS if side not in asked],
        ),
    )
    story: list[str | Question] = [
        f"The {subject} is {side} of the {other}." for subject, side, other in told
    ]
    lines = [line for line, (_, side, _) in enumerate(told, start=1) if side in asked]
    for _ in range(_number(4, size, "questions", official=1)):
        line = draws.choice(lines)
        subject, side, other = told[line - 1]
        texts = (
            f"What is {side} of the {other}?",
            f"What is the {other} {_opposite(side, _COMPASS)} of?",
        )
        story.append(Question(draws.choice(texts), subject, (line,)))
    return story


def simulate_task15(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Returns basic deduction: what kinds of animals fear, and of which kind each animal is; asked
    is what the animal fears.

    An animal's kind is told only after the fear of this kind.

    Args:
      draws: random numbers.
      size: length 8 (2 to 8) statements, half of them (rounded down) about single animals; 4
        questions (any number); no distractors.

    Raises:
      UserError: the four kinds and names do not suffice for `size`.
    """
    length = _number(15, size, "length", official=8, least=2, most=8)
    _number(15, size, "distractors", official=0, least=0, most=0)
    kinds, names = (
        draws.sample([*_ANIMALS], length - length // 2),
        draws.sample(_DEDUCED, length // 2),
    )
    fears: dict[str, tuple[str, int]] = {}
    animals: dict[str, tuple[str, int]] = {}
    story: list[str | Question] = []
    while len(story) < length:
        # A sentence is drawn from all of its form and left where it cannot be told: the official
        # files' order comes about in this way.
        name, kind, general = draws.choice(names), draws.choice(kinds), draws.random() < 0.5
        if general and kind not in fears:
            fears[kind] = (draws.choice([one for one in _ANIMALS if one != kind]), len(story) + 1)
            story.append(f"{_ANIMALS[kind].capitalize()} are afraid of {_ANIMALS[fears[kind][0]]}.")
        elif not general and kind in fears and name not in animals:
            animals[name] = (kind, len(story) + 1)
            story.append(f"{name} is a {kind}.")
    for _ in range(_number(15, size, "questions", official=4)):
        name = draws.choice(names)
        kind, line = animals[name]
        story.append(
            Question(f"What is {name.lower()} afraid of?", fears[kind][0], (line, fears[kind][1]))
        )
    return story


def simulate_task16(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Returns basic induction: kinds and colors of animals, all but one color; asked is the last
    one.

    The answer is the color of another animal of the same kind; of several, of that whose kind was
    told last, whatever color most of them
    have: so it is in all 11,000 official questions. As there, the kind asked about never has
      exactly three animals, and animals whose
    kind is told before the color of any of them is are of one color.

    Args:
      draws: random numbers.
      size: length 9 (3, 5, 7 or 9) statements, two on each animal but one; 1 question; no
        distractors.

    Raises:
      UserError: `size` asks for anything else.
    """
    length = _number(16, size, "length", official=9, least=3, most=9)
    _number(16, size, "questions", official=1, most=1)
    _number(16, size, "distractors", official=0, least=0, most=0)
    if length % 2 == 0:
        raise UserError(
            f"task 16 with `length`={length}: expected an odd number, two statements on each animal"
            " but one, from 3 to 9."
        )
    while True:
        story, kinds, colors = _animals(draws, draws.sample(_INDUCED, (length + 1) // 2))
        (asked,) = kinds.keys() - colors.keys()
        others = [
            name for name, (kind, _) in kinds.items() if kind == kinds[asked][0] and name != asked
        ]
        if len(others) not in (0, 2):
            last = others[-1]
            return [
                *story,
                Question(
                    f"What color is {asked}?",
                    colors[last][0],
                    (kinds[asked][1], kinds[last][1], colors[last][1]),
                ),
            ]


def simulate_task17(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Returns positional reasoning: a chain of shapes, each beside the next; asked is how its two
    ends lie to each other.

    One shape is on a side of another where the steps between them, added up, lead that way. Half
    the answers are yes.

    Args:
      draws: random numbers.
      size: length 2 (to 5) statements, all of which support each answer; 8 questions (any number);
        distractors 0 (to 5 - length), shapes beside the chain, about which nothing is asked.

    Raises:
      UserError: the six shapes do not suffice for `size`.
    """
    length = _number(17, size, "length", official=2, least=2, most=5)
    distractors = _number(17, size, "distractors", official=0, least=0, most=5 - length)
    shapes = draws.sample(_SHAPES, length + 1 + distractors)
    steps = _walk(draws, length, _PLACES)
    # Here, unlike in the maps of rooms, it is the second thing of a statement that is drawn first.
    told = [
        (other, _opposite(side, _PLACES), shape)
        for shape, side, other in _told(draws, _map(draws, shapes, steps, _PLACES))
    ]
    story: list[str | Question] = [
        f"The {subject} is {side} the {other}." for subject, side, other in told
    ]
    chain = _lines_of(told, shapes[: length + 1])
    way = (sum(_PLACES[step][0] for step in steps), sum(_PLACES[step][1] for step in steps))
    for _ in range(_number(17, size, "questions", official=8)):
        forwards, wanted = draws.random() < 0.5, draws.random() < 0.5
        first, last = (shapes[0], shapes[length]) if forwards else (shapes[length], shapes[0])
        sign = -1 if forwards else 1
        side = draws.choice(
            [
                one
                for one, (x, y) in _PLACES.items()
                if (sign * (way[0] * x + way[1] * y) > 0) == wanted
            ]
        )
        story.append(
            Question(
                f"Is the {first} {side} the {last}?",
                "yes" if wanted else "no",
                chain if forwards else chain[::-1],
            )
        )
    return story


def simulate_task18(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Returns size reasoning: what fits inside what, told at random and perhaps again; asked is a
    pair that one thing lies between.

    The chocolate is always smallest, the box of chocolates next; the order of the others is drawn.
    Where no pair can be asked yet, as many statements again are told.

    Args:
      draws: random numbers.
      size: length 5 (at least 2) statements, or a multiple of it; 5 questions (any number); no
        distractors, as many statements already are.

    Raises:
      UserError: `size` asks for anything else.
    """
    length = _number(18, size, "length", official=5, least=2)
    _number(18, size, "distractors", official=0, least=0, most=0)
    things = [*_SMALL, *draws.sample(_LARGE, len(_LARGE))]
    lines: dict[tuple[str, str], int] = {}
    chains: list[tuple[str, str, str]] = []
    story: list[str | Question] = []
    while not chains:
        for _ in range(length):
            smaller, larger = (things[rank] for rank in sorted(draws.sample(range(len(things)), 2)))
            story.append(
                draws.choice(
                    (
                        f"The {smaller} fits inside the {larger}.",
                        f"The {larger} is bigger than the {smaller}.",
                    )
                )
            )
            lines.setdefault((smaller, larger), len(story))
        chains = [
            (low, between, high)
            for low, between in lines
            for other, high in lines
            if between == other
        ]
    for _ in range(_number(18, size, "questions", official=5)):
        low, between, high = draws.choice(chains)
        ends = [(high, lines[between, high]), (low, lines[low, between])]
        is_larger = draws.random() < 0.5
        (first, line), (second, next_line) = ends if is_larger else ends[::-1]
        text = draws.choice(
            (f"Is the {first} bigger than the {second}?", f"Does the {second} fit in the {first}?")
        )
        story.append(Question(text, "yes" if is_larger else "no", (line, next_line)))
    return story


def simulate_task19(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Returns path finding: a map of rooms without circles; asked is the way from one to another,
    such as "n,w".

    The way never goes back in a direction that it took the other way before.

    Args:
      draws: random numbers.
      size: length 2 (to 5) statements along the way, which is as long; 1 question; distractors 5 -
        length (or fewer), rooms beside the way.

    Raises:
      UserError: the six rooms do not suffice for `size`.
    """
    length = _number(19, size, "length", official=2, most=5)
    distractors = _number(19, size, "distractors", official=5 - length, least=0, most=5 - length)
    _number(19, size, "questions", official=1, most=1)
    rooms = draws.sample(HOUSE, length + 1 + distractors)
    steps = _walk(draws, length, _COMPASS)
    told = _told(draws, _map(draws, rooms, steps, _COMPASS))
    text = f"How do you go from the {rooms[0]} to the {rooms[length]}?"
    question = Question(
        text, ",".join(step[0] for step in steps), _lines_of(told, rooms[: length + 1])
    )
    return [
        *(f"The {subject} is {side} of the {other}." for subject, side, other in told),
        question,
    ]


def simulate_task20(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Returns agents' motivations: who is hungry, goes to the kitchen and takes the apple; asked is
    where to and why, after each statement.

    What a person has taken nobody else can take. The story ends when nobody can do anything more,
    after 9 to 12 statements.

    Args:
      draws: random numbers.
      size: length (1 to 12): at most so many statements; questions (1 to 9, and no more than
        length): so many statements, drawn at random, are followed by their question; no
        distractors.

    Raises:
      UserError: `size` asks for anything else.
    """
    length = _number(20, size, "length", official=12, most=12)
    _number(20, size, "distractors", official=0, least=0, most=0)
    acts = _acts(draws, length)
    # The story of four people with one motive ends after nine statements, so more questions cannot
    # be promised.
    questions = _number(20, size, "questions", official=0, least=0, most=min(length, 9))
    asked = {*draws.sample(range(len(acts)), questions or len(acts))}
    story: list[str | Question] = []
    motives: dict[str, tuple[str, int]] = {}
    for number, (name, motive, stage) in enumerate(acts):
        room, thing = _MOTIVES[motive]
        if stage == 0:
            motives[name] = (motive, len(story) + 1)
        statements = (
            f"{name} is {motive}.",
            f"{name} {draws.choice(_GOES)} to the {room}.",
            f"{name} {draws.choice(_GETS)} the {thing} there.",
        )
        story.append(statements[stage])
        if number in asked:
            who = name.lower()
            texts = (
                f"Where will {who} go?",
                f"Why did {who} go to the {room}?",
                f"Why did {who} get the {thing}?",
            )
            story.append(
                Question(texts[stage], room if stage == 0 else motive, (motives[name][1],))
            )
    return story


def _number(
    task: int, size: StorySize, name: str, official: int, least: int = 1, most: int = _MANY
) -> int:
    """Returns what `size` asks for, or what the official files have."""
    value: int = getattr(size, name) or official
    if least <= value <= most:
        return value
    if most == 0:
        raise UserError(f"task {task} with `{name}`={value}: it takes no {name}; leave them at 0.")
    raise UserError(
        f"task {task} with `{name}`={value}: expected {least} to {most}, or 0 for what the official"
        " files have."
    )


def _opposite(side: str, sides: Mapping[str, Side]) -> str:
    x, y = sides[side]
    return next(other for other, step in sides.items() if step == (-x, -y))


def _walk(draws: random.Random, length: int, sides: Mapping[str, Side]) -> list[str]:
    """Returns steps none of which is the opposite of another, so that no two places of the walk are
    the same or neighbours by chance.
    """
    steps = [draws.choice(list(sides))]
    while len(steps) < length:
        back = {_opposite(step, sides) for step in steps}
        steps.append(draws.choice([side for side in sides if side not in back]))
    return steps


def _map(
    draws: random.Random,
    things: Sequence[str],
    steps: Sequence[str],
    sides: Mapping[str, Side],
    beside: Iterable[str] | None = None,
) -> Neighbours:
    """Returns a tree: a chain of things, one for each step and one more, and the other things each
    beside one of the chain.

    Args:
      draws: random numbers.
      things: those of the chain first.
      steps: side of each thing of the chain on which the next one lies.
      sides: their names and directions.
      beside: sides of the chain's things that the other things may take, as far as they are free;
        None: all.
    """
    neighbours: Neighbours = {thing: {} for thing in things}
    chain, others = things[: len(steps) + 1], things[len(steps) + 1 :]
    places = [(0, 0)]
    for step in steps:
        places.append(_beside(places[-1], sides[step]))
    links = [(chain[number + 1], step, chain[number]) for number, step in enumerate(steps)]
    allowed = list(sides if beside is None else beside)
    free = [
        (side, thing)
        for thing, place in zip(chain, places, strict=True)
        for side in allowed
        if _beside(place, sides[side]) not in places
    ]
    links += [
        (other, side, thing)
        for other, (side, thing) in zip(others, draws.sample(free, len(others)), strict=True)
    ]
    for subject, side, other in links:
        neighbours[subject][other] = side
        neighbours[other][subject] = _opposite(side, sides)
    return neighbours


def _beside(place: Side, step: Side) -> Side:
    return place[0] + step[0], place[1] + step[1]


def _told(draws: random.Random, neighbours: Neighbours) -> list[Relation]:
    """Returns each pair of neighbours once, in the order and from the side in which it is first
    drawn: any thing, then any neighbour of it.

    So things with one neighbour are told of earlier than others, and more often as the subject; the
    official files show these very shares.
    """
    pairs = sum(map(len, neighbours.values())) // 2
    told: dict[frozenset[str], Relation] = {}
    while len(told) < pairs:
        subject = draws.choice(list(neighbours))
        other = draws.choice(list(neighbours[subject]))
        told.setdefault(frozenset((subject, other)), (subject, neighbours[subject][other], other))
    return list(told.values())


def _lines_of(told: Sequence[Relation], chain: Sequence[str]) -> tuple[int, ...]:
    """Returns the lines that tell of each thing of a chain and the next one."""
    lines = {
        frozenset((subject, other)): line for line, (subject, _, other) in enumerate(told, start=1)
    }
    return tuple(lines[frozenset(pair)] for pair in pairwise(chain))


def _animals(
    draws: random.Random, names: Sequence[str]
) -> tuple[list[str], dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
    """Returns statements on the kinds of all animals and the colors of all but one; each (kind,
    line), and each (color, line), by name.
    """
    kinds: dict[str, tuple[str, int]] = {}
    colors: dict[str, tuple[str, int]] = {}
    hues: dict[str, str] = {}
    story: list[str] = []
    while len(story) < 2 * len(names) - 1:
        name = draws.choice([name for name in names if name not in colors])
        if name not in kinds:
            kind = draws.choice(_KINDS)
            kinds[name] = (kind, len(story) + 1)
            # Each new animal changes the color of its kind; those that were told keep theirs.
            hues[kind] = draws.choice(_COLORS)
            story.append(f"{name} is a {kind}.")
        else:
            colors[name] = (hues[kinds[name][0]], len(story) + 1)
            story.append(f"{name} is {colors[name][0]}.")
    return story, kinds, colors


def _acts(draws: random.Random, length: int) -> list[tuple[str, str, int]]:
    """Returns (name, motive, stage) of each act: 0, the motive is told; 1, the person goes; 2, the
    person takes the only such thing.
    """
    motives = {name: draws.choice(list(_MOTIVES)) for name in _PEOPLE}
    stages = dict.fromkeys(_PEOPLE, 0)
    acts: list[tuple[str, str, int]] = []
    while len(acts) < length:
        taken = {motives[name] for name, stage in stages.items() if stage == 3}
        able = [
            name
            for name, stage in stages.items()
            if stage < 2 or (stage == 2 and motives[name] not in taken)
        ]
        if not able:
            break
        name = draws.choice(able)
        acts.append((name, motives[name], stages[name]))
        stages[name] += 1
    return acts
