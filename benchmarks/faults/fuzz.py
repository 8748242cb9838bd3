"""Feeds every parser with damaged and made up inputs: each is answered or refused in one sentence.

How it is used::

    python benchmarks/faults/fuzz.py --inputs=10000                    # all parsers
    python benchmarks/faults/fuzz.py --parsers=babi,trees --seconds=20

Of the inputs of a parser one half are samples with some bytes changed, the other half texts that
hypothesis makes of the words of the format. A parser runs in a process of its own, which a crash
ends. Its line of JSON: inputs, how many were answered, refused (UserError) and ended in any other
error ("tracebacks"), the slowest input and the peak of memory. Errors are told on standard error;
--failures keeps the inputs. The same seed makes the same inputs.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from outcomes import TooSlow, bounded  # noqa: E402
from parsers import Parser, emptied, parsers  # noqa: E402

LONGEST_INPUT = 60.0
_STRANGE = (
    b"\xff",
    *(
        text.encode("utf-8", errors="surrogatepass")
        for text in ("\0", "\ud800", "\x85", "\u2028", "\r", "\x1b[2J", "²")
    ),
)
_LARGEST = 200_000


@dataclass
class Counts:
    """What became of a parser's inputs."""

    inputs: int = 0
    answered: int = 0
    refused: int = 0
    tracebacks: int = 0
    slowest_seconds: float = 0.0
    errors: collections.Counter[str] = field(default_factory=collections.Counter)

    def report(self, name: str) -> dict[str, Any]:
        """The line of JSON."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "parser": name,
            "inputs": self.inputs,
            "answered": self.answered,
            "refused": self.refused,
            "tracebacks": self.tracebacks,
            "slowest_seconds": round(self.slowest_seconds, 3),
            "peak_mb": round(peak),
        }


def fuzz(
    parser: Parser, inputs: int, seconds: float, seed: int, failures: Path | None = None
) -> Counts:
    """Feeds a parser until there are so many inputs, or the time is over."""
    counts, deadline = Counts(), time.monotonic() + seconds
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "place"
        # What is imported at the first input is not counted as its time.
        with contextlib.suppress(Exception), emptied(place), quiet():
            parser.parse(parser.samples[0], place)
        for number in range((inputs + 1) // 2):
            if time.monotonic() > deadline:
                break
            sample = parser.samples[number % len(parser.samples)]
            changed = sample if number < len(parser.samples) else mutated(sample, parser, generator)
            feed(parser, changed, place, counts, failures)
        for made in made_up(parser, inputs - counts.inputs, seed, deadline):
            feed(parser, made, place, counts, failures)
    return counts


def mutated(sample: bytes, parser: Parser, generator: random.Random) -> bytes:
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


def made_up(parser: Parser, count: int, seed: int, deadline: float) -> Iterator[bytes]:
    """Yields texts of the format's words and others, made by hypothesis."""
    import hypothesis
    from hypothesis import strategies as st

    part = st.sampled_from(parser.words) | st.text(max_size=8) | st.sampled_from(["\n", " ", "a"])
    texts = st.lists(part, max_size=20).map("".join).map(_encoded) | st.binary(max_size=64)
    collected: list[bytes] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(count, 1),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(texts)
    def collect(text: bytes) -> None:
        collected.append(text)

    collect()
    for text in collected[:count]:
        if time.monotonic() > deadline:
            return
        yield text


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")


def feed(
    parser: Parser, content: bytes, place: Path, counts: Counts, failures: Path | None
) -> None:
    """Gives a parser one input, and counts what becomes of it."""
    from ut_tf.errors import UserError

    counts.inputs += 1
    began = time.monotonic()
    try:
        with emptied(place), quiet(), bounded(LONGEST_INPUT):
            parser.parse(content, place)
        counts.answered += 1
    except UserError as error:
        counts.refused += 1
        if not str(error).strip():
            counts.tracebacks += 1
    except (Exception, TooSlow) as error:
        counts.tracebacks += 1
        told = "".join(traceback.format_exception(error)[-4:])[-1500:]
        where = told.splitlines()[-1][:120]
        counts.errors[where] += 1
        if counts.errors[where] == 1:
            print(f"input {counts.inputs} {content[:200]!r}:\n{told}", file=sys.stderr, flush=True)
        if failures is not None:
            failures.mkdir(parents=True, exist_ok=True)
            (failures / f"{counts.inputs:06d}").write_bytes(content)
    counts.slowest_seconds = max(counts.slowest_seconds, time.monotonic() - began)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Takes in the warnings of the library."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def main() -> None:
    names = ",".join(parsers())
    command = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    command.add_argument("--inputs", type=int, default=10_000, help="of each parser")
    command.add_argument("--seconds", type=float, default=600.0, help="of each parser, at most")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--parsers", default=names, help=names)
    command.add_argument("--failures", type=Path, help="folder for inputs that end in an error")
    command.add_argument("--here", action="store_true", help="in this process")
    arguments = command.parse_args()
    chosen = arguments.parsers.split(",")
    short = sum(_one(name, arguments) for name in chosen)
    sys.exit(short > 0)


def _one(name: str, arguments: argparse.Namespace) -> bool:
    """Feeds one parser, in a process of its own unless --here; returns whether it fell short."""
    if arguments.here:
        failures = arguments.failures and arguments.failures / name
        counts = fuzz(
            parsers()[name], arguments.inputs, arguments.seconds, arguments.seed, failures
        )
        print(json.dumps(counts.report(name)), flush=True)
        return counts.tracebacks > 0
    values = {"inputs": arguments.inputs, "seconds": arguments.seconds, "seed": arguments.seed}
    flags = [f"--{flag}={value}" for flag, value in values.items()]
    if arguments.failures:
        flags.append(f"--failures={arguments.failures}")
    line = [sys.executable, __file__, "--here", f"--parsers={name}", *flags]
    status = subprocess.run(line, check=False).returncode
    if status not in (0, 1):
        print(json.dumps({"parser": name, "crashed": status}), flush=True)
    return status != 0


if __name__ == "__main__":
    main()
