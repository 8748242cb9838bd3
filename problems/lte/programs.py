"""Programs as expressions, and digit strings, of learning to execute.

How it is used::

    draws = random.Random("train/0/0")
    # ("(16738*68213)-25718", "723476")
    write_program(draws, length=5, nesting=2, operations=SETS["program"])
    # ("3141592", "31415923141592")
    write_digits(draws, length=7, nesting=1, result=RESULTS["double"])

Operations and sets are those of "Relational recurrent neural networks" (arXiv 1806.01822).
"""

import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Codes = Sequence[str]
Values = Sequence[int]
MOST_TURNS = 9
"""Turns of a loop at most, so that their number is one digit."""


@dataclass(frozen=True)
class Operation:
    """One operation of a program.

    Args:
      operands: how many values it takes.
      write: from draws, the operands' values and their code to the result and the code of the
        operation.
    """

    operands: int
    write: Callable[[random.Random, Values, Codes], tuple[int, str]]


def write_program(
    draws: random.Random, length: int, nesting: int, operations: Sequence[Operation]
) -> tuple[str, str]:
    """A program and its result, modulo 10^(length + 1), in decimal digits.

    Args:
      draws: where everything random comes from.
      length: digits of each numeral.
      nesting: operations in the program.
      operations: what each of them is drawn from.
    """
    lowest = 10 ** (length - 1)
    values: list[int] = []
    codes: list[str] = []
    code = ""
    for _ in range(nesting):
        operation = draws.choice(operations)
        values += [
            lowest + draws.randrange(9 * lowest) for _ in range(operation.operands - len(values))
        ]
        codes += map(str, values[len(codes) :])
        value, code = operation.write(draws, values, codes)
        values, codes = [value], [f"({code})"]
    return code, str(values[0] % (100 * lowest))


def write_digits(
    draws: random.Random, length: int, nesting: int, result: Callable[[str], str]
) -> tuple[str, str]:
    """A numeral of `length` digits, no leading zero, and its `result`; `nesting` has no effect."""
    del nesting
    lowest = 10 ** (length - 1)
    digits = str(lowest + draws.randrange(9 * lowest))
    return digits, result(digits)


def _computed(sign: str, compute: Callable[[int, int], int]) -> Operation:
    return Operation(2, lambda _, values, codes: (compute(*values), f"{codes[0]}{sign}{codes[1]}"))


def _if(draws: random.Random, values: Values, codes: Codes) -> tuple[int, str]:
    sign = draws.choice("<>")
    holds = values[1] < values[2] if sign == "<" else values[1] > values[2]
    return values[0 if holds else 3], f"{codes[0]}if{codes[1]}{sign}{codes[2]}else{codes[3]}"


def _for(draws: random.Random, values: Values, codes: Codes) -> tuple[int, str]:
    turns = 1 + draws.randrange(MOST_TURNS)
    return values[0] + turns * values[1], f"x={codes[0]}for[{turns}]x+={codes[1]}"


# Each operation takes the result so far as its first operand and numerals of exactly `length`
# digits, no zero in front, as the others. Results are exact; the last one is taken modulo
# 10^(length + 1), which is never negative. "if" is aifb>celsed: a where b > c (or b<c), else d;
# "for" is x=afor[n]x+=b: a + n * b with n from 1 to 9.
OPERATIONS = {
    "add": _computed("+", operator.add),
    "subtract": _computed("-", operator.sub),
    "multiply": _computed("*", operator.mul),
    "if": Operation(4, _if),
    "for": Operation(2, _for),
}
SETS = {
    "program": ("add", "subtract", "multiply", "if", "for"),
    "control": ("if", "for"),
    "addition": ("add",),
}
"""Names of the operations of each task that computes."""
RESULTS: dict[str, Callable[[str], str]] = {
    "copy": lambda digits: digits,
    "double": lambda digits: digits + digits,
    "reverse": lambda digits: digits[::-1],
}
"""The result of a digit string, of each task that memorises."""
SYMBOLS = "0123456789+-*()<>=[]xifelsor"
DIGITS = "0123456789"
