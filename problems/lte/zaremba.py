"""Programs with variables and ``print``, as in Zaremba and Sutskever's "Learning to Execute" (arXiv
1410.4615), and what they print.

How it is used::

    draws = random.Random("train/0/0")
    # ("j=8584\\nfor x in range(8):\\n  j+=920\\nb=(1500+j)\\nprint((b+7567))", "25011")
    write_printing_program(draws, 4, 3, operations=("pair", "assign", "loop"), signs="+-")

The full stop that ends a target in the paper is left out: the end of sequence says the same.
"""

import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LOOP_VARIABLE = "x"
LETTERS = string.ascii_lowercase.replace(LOOP_VARIABLE, "")
"""Variables; each stands for one value only, so a program has at most as many operations."""


@dataclass
class _Draft:
    """A program while it is being written.

    Args:
      draws: where everything random comes from.
      length: digits of each numeral.
      signs: "+" or "+-".
      unused: variables that are still free, in the order in which they are taken.
      lines: the statements so far.
      value, code: the result so far and the expression for it; no code: there is none yet.
      bare: the same expression without the parentheses that an operand needs.
    """

    draws: random.Random
    length: int
    signs: str
    unused: list[str]
    lines: list[str] = field(default_factory=list)
    value: int = 0
    code: str = ""
    bare: str = ""

    def operands(self, count: int) -> list[tuple[int, str]]:
        """Returns `count` (value, code): numerals, and the result so far at a random place."""
        lowest = 10 ** (self.length - 1)
        values = [lowest + self.draws.randrange(9 * lowest) for _ in range(count)]
        operands = [(value, str(value)) for value in values]
        if self.code:
            operands[self.draws.randrange(count)] = (self.value, self.code)
        return operands

    def small(self) -> int:
        return 1 + self.draws.randrange(4 * self.length)

    def hold(self, code: str) -> str:
        """A new variable after a line that gives it the value of `code`."""
        variable = self.unused.pop()
        self.lines.append(f"{variable}={code}")
        return variable

    def combine(self, first: tuple[int, str], second: tuple[int, str]) -> None:
        """Makes the sum or the difference of two operands the result."""
        sign = self.draws.choice(self.signs)
        self.value = first[0] + second[0] if sign == "+" else first[0] - second[0]
        self.code = self.bare = f"({first[1]}{sign}{second[1]})"


def write_printing_program(
    draws: random.Random, length: int, nesting: int, operations: Sequence[str], signs: str = "+-"
) -> tuple[str, str]:
    """A program in Python and what it prints.

    Args:
      draws: where everything random comes from.
      length: digits of each numeral.
      nesting: operations in the program, at most ``len(LETTERS)``.
      operations: names of ``OPERATIONS`` that each of them is drawn from.
      signs: "+" or "+-": of sums and loops.
    """
    draft = _Draft(draws, length, signs, draws.sample(LETTERS, nesting))
    for _ in range(nesting):
        OPERATIONS[draws.choice(operations)](draft)
    return "\n".join([*draft.lines, f"print({draft.bare})"]), str(draft.value)


def _multiply(draft: _Draft) -> None:
    ((value, code),) = draft.operands(1)
    factor = draft.small()
    first, second = (code, factor) if draft.draws.random() < 0.5 else (factor, code)
    draft.value = value * factor
    draft.code = draft.bare = f"({first}*{second})"


def _if(draft: _Draft) -> None:
    first, left, right, other = draft.operands(4)
    sign = draft.draws.choice("<>")
    holds = left[0] < right[0] if sign == "<" else left[0] > right[0]
    draft.value = (first if holds else other)[0]
    draft.bare = f"{first[1]} if {left[1]}{sign}{right[1]} else {other[1]}"
    draft.code = f"({draft.bare})"


def _loop(draft: _Draft) -> None:
    (start, start_code), (added, added_code) = draft.operands(2)
    turns, sign = draft.small(), draft.draws.choice(draft.signs)
    draft.value = start + turns * added if sign == "+" else start - turns * added
    draft.code = draft.bare = draft.hold(start_code)
    draft.lines += [f"for {LOOP_VARIABLE} in range({turns}):", f"  {draft.code}{sign}={added_code}"]


def _assign(draft: _Draft) -> None:
    operands = draft.operands(2)
    held = draft.draws.randrange(2)
    value, code = operands[held]
    operands[held] = (value, draft.hold(code))
    draft.combine(*operands)


# Each operation takes the result so far, at a place drawn among its operands, and numerals of
# exactly `length` digits for the others:
#   pair       (a+b) or (a-b)
#   multiply   (a*n) or (n*a), n from 1 to 4 * length
#   if         (a if b<c else d), or with >
#   loop       v=a, then n times v+=b or v-=b, n from 1 to 4 * length, in a new variable v
#   assign     v=a, then (v+b), (b+v), (v-b) or (b-v), in a new variable v
OPERATIONS: dict[str, Callable[[_Draft], None]] = {
    "pair": lambda draft: draft.combine(*draft.operands(2)),
    "multiply": _multiply,
    "if": _if,
    "loop": _loop,
    "assign": _assign,
}
SETS = {
    "program": (("pair", "multiply", "if", "loop", "assign"), "+-"),
    "control": (("if", "loop"), "+"),
    "addition": (("pair", "assign"), "+"),
}
"""Operations and signs of each task."""
SYMBOLS = "0123456789+-*()<>=: \n" + string.ascii_lowercase
