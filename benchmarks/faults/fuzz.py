"""Feeds every parser with damaged and made up inputs: each is answered or refused in one sentence.

How it is used::

    python benchmarks/faults/fuzz.py                           # all parsers
    python benchmarks/faults/fuzz.py --only=babi --seconds=20

Half of a parser's inputs are samples with some bytes changed, the other half words of the format in
any order. An input that takes more than a minute falls short, too.
"""

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

from frame import Counts, Plan, judge, run
from parsers import Parser, empty_folder, parsers

_STRANGE = (
    b"\xff",
    *(
        text.encode("utf-8", errors="surrogatepass")
        for text in ("\0", "\ud800", "\x85", "\u2028", "\r", "\x1b[2J", "²", "\u65e5")
    ),
)
_LARGEST = 200_000
_MOST_INPUTS = 10_000


def campaign(folder: Path, plan: Plan) -> Iterator[Counts]:
    """Yields the counts of each parser."""
    everything = parsers()
    names = plan.chosen(everything)
    for name in names:
        generator = plan.generator(name)
        yield fuzz(name, everything[name], folder, plan.seconds / len(names), generator)


def fuzz(
    name: str,
    parser: Parser,
    folder: Path,
    seconds: float,
    generator: random.Random,
    inputs: int = _MOST_INPUTS,
) -> Counts:
    """Feeds a parser until there are so many inputs, or the time is over."""
    counts, slowest, place = Counts(name), 0.0, folder / name

    # What is imported at the first input is not counted as its time.
    with contextlib.suppress(Exception), empty_folder(place):
        parser.parse(parser.samples[0], place)
    deadline = time.monotonic() + seconds
    for number in range(inputs):
        began = time.monotonic()
        if began > deadline:
            break
        content = input_of(number, parser, generator)
        with empty_folder(place):
            outcome = judge(lambda content=content: parser.parse(content, place), None)
        slowest = max(slowest, time.monotonic() - began)
        counts.add(outcome, repr(content[:200]))
    counts.note = f"slowest {slowest:.2f} s"
    return counts


def input_of(number: int, parser: Parser, generator: random.Random) -> bytes:
    """The samples themselves at first, then changed ones and made up ones in turn."""
    if number < len(parser.samples):
        return parser.samples[number]
    sample = generator.choice(parser.samples)
    return make_up(parser, generator) if number % 2 else mutate(sample, parser, generator)


def mutate(sample: bytes, parser: Parser, generator: random.Random) -> bytes:
    """A sample with one to four changes."""
    content = bytearray(sample)
    for _ in range(generator.randint(1, 4)):
        place = generator.randrange(len(content) + 1)
        end = min(len(content), place + generator.choice((1, 1, 4, 64, 4096)))
        kind = generator.randrange(7)
        if kind == 0 and content:
            content[place % len(content)] ^= 1 << generator.randrange(8)
        elif kind == 1:
            del content[place:end]
        elif kind == 2:
            content[place:place] = generator.choice(_STRANGE)
        elif kind == 3:
            content[place:end] = generator.choice(parser.words).encode()
        elif kind == 4:
            content[place:place] = content[place:end] * generator.choice((1, 3, 500))
        elif kind == 5:
            del content[place:]
        else:
            content[place:end] = generator.randbytes(end - place)
    return bytes(content[:_LARGEST])


def make_up(parser: Parser, generator: random.Random) -> bytes:
    """Words of the format in any order, with strange ones between."""
    words = (*(word.encode() for word in parser.words), b"\n", b" ", b"a", *_STRANGE)
    return b"".join(generator.choice(words) for _ in range(generator.randrange(20)))


if __name__ == "__main__":
    run(__doc__, campaign, seconds=400.0)
