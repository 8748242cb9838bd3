"""Simulated bAbI tasks about relations: kinds (15, 16), sizes (18) and motives (20).

Each function draws a small world and tells it as the official files do: with their words, sentences
and lengths, and with the frequencies counted there of orders, forms, questions, answers and
supporting facts. What a ``StorySize`` may ask for stands with each function; anything else raises
UserError, since the official words would not suffice.
"""

import random
from collections.abc import Sequence

from ut_tf.errors import UserError
from ut_tf.problems.babi.simulator.story import Question, StorySize, number_of

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


def simulate_task15(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Basic deduction: what kinds of animals fear, and of which kind each animal is; asked is what
    the animal fears.

    An animal's kind is told only after the fear of this kind.

    Args:
      draws: random numbers.
      size: length 8 (2 to 8) statements, half of them (rounded down) about single animals; 4
        questions (any number); no distractors.

    Raises:
      UserError: the four kinds and names do not suffice for `size`.
    """
    length = number_of(15, size, "length", official=8, least=2, most=8)
    number_of(15, size, "distractors", official=0, least=0, most=0)
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
            fears[kind] = (
                draws.choice([animal for animal in _ANIMALS if animal != kind]),
                len(story) + 1,
            )
            story.append(f"{_ANIMALS[kind].capitalize()} are afraid of {_ANIMALS[fears[kind][0]]}.")
        elif not general and kind in fears and name not in animals:
            animals[name] = (kind, len(story) + 1)
            story.append(f"{name} is a {kind}.")
    for _ in range(number_of(15, size, "questions", official=4)):
        name = draws.choice(names)
        kind, line = animals[name]
        story.append(
            Question(f"What is {name.lower()} afraid of?", fears[kind][0], (line, fears[kind][1]))
        )
    return story


def simulate_task16(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Basic induction: kinds and colors of animals, all but one color; asked is the last one.

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
    length = number_of(16, size, "length", official=9, least=3, most=9)
    number_of(16, size, "questions", official=1, most=1)
    number_of(16, size, "distractors", official=0, least=0, most=0)
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


def simulate_task18(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Size reasoning: what fits inside what, told at random and perhaps again; asked is a pair that
    one thing lies between.

    The chocolate is always smallest, the box of chocolates next; the order of the others is drawn.
    Where no pair can be asked yet, as many statements again are told.

    Args:
      draws: random numbers.
      size: length 5 (at least 2) statements, or a multiple of it; 5 questions (any number); no
        distractors, as many statements already are.

    Raises:
      UserError: `size` asks for anything else.
    """
    length = number_of(18, size, "length", official=5, least=2)
    number_of(18, size, "distractors", official=0, least=0, most=0)
    items = [*_SMALL, *draws.sample(_LARGE, len(_LARGE))]
    lines: dict[tuple[str, str], int] = {}
    chains: list[tuple[str, str, str]] = []
    story: list[str | Question] = []
    while not chains:
        for _ in range(length):
            smaller, larger = (items[rank] for rank in sorted(draws.sample(range(len(items)), 2)))
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
    for _ in range(number_of(18, size, "questions", official=5)):
        low, between, high = draws.choice(chains)
        ends = [(high, lines[between, high]), (low, lines[low, between])]
        is_larger = draws.random() < 0.5
        (first, line), (second, next_line) = ends if is_larger else ends[::-1]
        text = draws.choice(
            (f"Is the {first} bigger than the {second}?", f"Does the {second} fit in the {first}?")
        )
        story.append(Question(text, "yes" if is_larger else "no", (line, next_line)))
    return story


def simulate_task20(draws: random.Random, size: StorySize) -> list[str | Question]:
    """Agents' motivations: who is hungry, goes to the kitchen and takes the apple; asked is where
    to and why, after each statement.

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
    length = number_of(20, size, "length", official=12, most=12)
    number_of(20, size, "distractors", official=0, least=0, most=0)
    acts = _acts(draws, length)
    # The story of four people with one motive ends after nine statements, so more questions cannot
    # be promised.
    questions = number_of(20, size, "questions", official=0, least=0, most=min(length, 9))
    asked = {*draws.sample(range(len(acts)), questions or len(acts))}
    story: list[str | Question] = []
    motives: dict[str, tuple[str, int]] = {}
    for number, (name, motive, stage) in enumerate(acts):
        room, item = _MOTIVES[motive]
        if stage == 0:
            motives[name] = (motive, len(story) + 1)
        statements = (
            f"{name} is {motive}.",
            f"{name} {draws.choice(_GOES)} to the {room}.",
            f"{name} {draws.choice(_GETS)} the {item} there.",
        )
        story.append(statements[stage])
        if number in asked:
            who = name.lower()
            texts = (
                f"Where will {who} go?",
                f"Why did {who} go to the {room}?",
                f"Why did {who} get the {item}?",
            )
            story.append(
                Question(texts[stage], room if stage == 0 else motive, (motives[name][1],))
            )
    return story


def _animals(
    draws: random.Random, names: Sequence[str]
) -> tuple[list[str], dict[str, tuple[str, int]], dict[str, tuple[str, int]]]:
    """Statements on the kinds of all animals and the colors of all but one; each (kind, line), and
    each (color, line), by name.
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
