"""Simulated bAbI tasks about places: rooms on a map (4, 19) and shapes in a plane (17).

As for ``relations``, what a ``StorySize`` may ask for stands with each function.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ut_tf.problems.babi.simulator.story import Question, StorySize, number_of
from ut_tf.problems.babi.simulator.storytelling import HOUSE

_SHAPES = ("triangle", "pink rectangle", "blue square", "red sphere", "red square", "yellow square")
_COMPASS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
_PLACES = {"above": (0, 1), "below": (0, -1), "to the right of": (1, 0), "to the left of": (-1, 0)}
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
    length = number_of(4, size, "length", official=2, least=2, most=5)
    distractors = number_of(4, size, "distractors", official=0, least=0, most=5 - length)
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
    for _ in range(number_of(4, size, "questions", official=1)):
        line = draws.choice(lines)
        subject, side, other = told[line - 1]
        texts = (
            f"What is {side} of the {other}?",
            f"What is the {other} {_opposite(side, _COMPASS)} of?",
        )
        story.append(Question(draws.choice(texts), subject, (line,)))
    return story


def simulate_task17(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Positional reasoning: a chain of shapes, each beside the next; asked is how its two ends lie
    to each other.

    One shape is on a side of another where the steps between them, added up, lead that way. Half
    the answers are yes.

    Args:
      draws: random numbers.
      size: length 2 (to 5) statements, all of which support each answer; 8 questions (any number);
        distractors 0 (to 5 - length), shapes beside the chain, about which nothing is asked.

    Raises:
      UserError: the six shapes do not suffice for `size`.
    """
    length = number_of(17, size, "length", official=2, least=2, most=5)
    distractors = number_of(17, size, "distractors", official=0, least=0, most=5 - length)
    shapes = draws.sample(_SHAPES, length + 1 + distractors)
    steps = _walk(draws, length, _PLACES)
    # Here, unlike in the maps of rooms, it is the second item of a statement that is drawn first.
    told = [
        (other, _opposite(side, _PLACES), shape)
        for shape, side, other in _told(draws, _map(draws, shapes, steps, _PLACES))
    ]
    story: list[str | Question] = [
        f"The {subject} is {side} the {other}." for subject, side, other in told
    ]
    chain = _lines_of(told, shapes[: length + 1])
    way = (sum(_PLACES[step][0] for step in steps), sum(_PLACES[step][1] for step in steps))
    for _ in range(number_of(17, size, "questions", official=8)):
        forwards, wanted = draws.random() < 0.5, draws.random() < 0.5
        first, last = (shapes[0], shapes[length]) if forwards else (shapes[length], shapes[0])
        sign = -1 if forwards else 1
        side = draws.choice(
            [
                place
                for place, (x, y) in _PLACES.items()
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


def simulate_task19(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Path finding: a map of rooms without circles; asked is the way from one to another, such as
    "n,w".

    The way never goes back in a direction that it took the other way before.

    Args:
      draws: random numbers.
      size: length 2 (to 5) statements along the way, which is as long; 1 question; distractors 5 -
        length (or fewer), rooms beside the way.

    Raises:
      UserError: the six rooms do not suffice for `size`.
    """
    length = number_of(19, size, "length", official=2, most=5)
    distractors = number_of(19, size, "distractors", official=5 - length, least=0, most=5 - length)
    number_of(19, size, "questions", official=1, most=1)
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


def _opposite(side: str, sides: Mapping[str, Side]) -> str:
    x, y = sides[side]
    return next(other for other, step in sides.items() if step == (-x, -y))


def _walk(draws: random.Random, length: int, sides: Mapping[str, Side]) -> list[str]:
    """Steps none of which is the opposite of another, so that no two places of the walk are the
    same or neighbours by chance.
    """
    steps = [draws.choice(list(sides))]
    while len(steps) < length:
        back = {_opposite(step, sides) for step in steps}
        steps.append(draws.choice([side for side in sides if side not in back]))
    return steps


def _map(
    draws: random.Random,
    items: Sequence[str],
    steps: Sequence[str],
    sides: Mapping[str, Side],
    beside: Iterable[str] | None = None,
) -> Neighbours:
    """A tree: a chain of items, one for each step and one more, and the other items each beside one
    of the chain.

    Args:
      draws: random numbers.
      items: those of the chain first.
      steps: side of each item of the chain on which the next one lies.
      sides: their names and directions.
      beside: sides of the chain's items that the other items may take, as far as they are free;
        None: all.
    """
    neighbours: Neighbours = {item: {} for item in items}
    chain, others = items[: len(steps) + 1], items[len(steps) + 1 :]
    places = [(0, 0)]
    for step in steps:
        places.append(_beside(places[-1], sides[step]))
    links = [(chain[number + 1], step, chain[number]) for number, step in enumerate(steps)]
    allowed = list(sides if beside is None else beside)
    free = [
        (side, item)
        for item, place in zip(chain, places, strict=True)
        for side in allowed
        if _beside(place, sides[side]) not in places
    ]
    links += [
        (other, side, item)
        for other, (side, item) in zip(others, draws.sample(free, len(others)), strict=True)
    ]
    for subject, side, other in links:
        neighbours[subject][other] = side
        neighbours[other][subject] = _opposite(side, sides)
    return neighbours


def _beside(place: Side, step: Side) -> Side:
    return place[0] + step[0], place[1] + step[1]


def _told(draws: random.Random, neighbours: Neighbours) -> list[Relation]:
    """Each pair of neighbours once, in the order and from the side in which it is first drawn: any
    item, then any neighbour of it.

    So items with one neighbour are told of earlier than others, and more often as the subject; the
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
    """The lines that tell of each item of a chain and the next one."""
    lines = {
        frozenset((subject, other)): line for line, (subject, _, other) in enumerate(told, start=1)
    }
    return tuple(lines[frozenset(pair)] for pair in pairwise(chain))
