"""The 15 tasks of "Neural Networks and the Chomsky Hierarchy" (arXiv 2207.02098): how a string is
drawn, and what it asks for.

How it is used::

    task = TASKS["reverse_string"]
    text = task.draw(random.Random(0), 5)      # "01101"
    task.answer(text)                          # "10110"

Numbers are counted modulo 5. Binary numbers are written from the lowest bit on in sums and
products, from the highest one on in roots. Where the length of an answer does not follow from that
of the string, a "." ends it.
"""

import functools
import math
import random
from collections.abc import Callable
from typing import NamedTuple

END = "."
MODULUS = 5
_BITS, _DIGITS = "01", "01234"
_POP, _PUSH_0, _PUSH_1 = "pab"
_MOVES = {"=": 0, "+": 1, "-": -1}
_MISSING, _UNKNOWN = "?", "x"


class Task(NamedTuple):
    """One of the tasks.

    Fields:
      symbols: of the strings.
      answers: symbols of the answers.
      draw: makes a string of at most so many symbols, or the fewest that it needs.
      answer: what a string asks for.
      length: of the longest answers, in those of the strings; rounded up.
      more: symbols of these answers besides.
    """

    symbols: str
    answers: str
    draw: Callable[[random.Random, int], str]
    answer: Callable[[str], str]
    length: float
    more: int

    def places(self, length: int) -> int:
        """The longest answer to a string of so many symbols."""
        return math.ceil(self.length * length) + self.more


def _any_of(symbols: str, draws: random.Random, length: int) -> str:
    return "".join(draws.choices(symbols, k=length))


def even_pairs(text: str) -> str:
    """1 where "01" and "10" together stand an even number of times in the string."""
    return str(int(text[0] == text[-1]))


def parity_check(text: str) -> str:
    """The sum of the bits modulo 2."""
    return str(text.count("1") % 2)


def cycle_navigation(text: str) -> str:
    """The place on a circle of five after the moves: "=" stays, "+" goes on, "-" goes back."""
    return str(sum(_MOVES[move] for move in text) % MODULUS)


def _flat_expression(draws: random.Random, length: int) -> str:
    digits = _any_of(_DIGITS, draws, (length + 1) // 2)
    signs = _any_of("+-*", draws, len(digits) - 1)
    return digits[0] + "".join(sign + digit for sign, digit in zip(signs, digits[1:], strict=True))


def modular_arithmetic_simple(text: str) -> str:
    """The value of digits with "+", "-" and "*" between, products first."""
    total, product = 0, int(text[0])
    for sign, digit in zip(text[1::2], text[2::2], strict=True):
        if sign == "*":
            product = product * int(digit) % MODULUS
        else:
            total, product = total + product, int(sign + digit)
    return str((total + product) % MODULUS)


def _stack_and_actions(draws: random.Random, length: int) -> str:
    height = draws.randrange(1, length) if length > 1 else 1
    actions = _any_of(_POP + _PUSH_0 + _PUSH_1, draws, length - height)
    return _any_of(_BITS, draws, height) + actions


def stack_manipulation(text: str) -> str:
    """The stack from its top on, after the actions behind it, which stands from its bottom on: "p"
    pops, if there is something, "a" pushes 0, "b" pushes 1.
    """
    stack = ""
    for symbol in text:
        pushed = {_PUSH_0: "0", _PUSH_1: "1"}.get(symbol, symbol)
        stack = stack[:-1] if symbol == _POP else stack + pushed
    return stack[::-1] + END


def reverse_string(text: str) -> str:
    """The string from its end to its beginning."""
    return text[::-1]


def _expression(draws: random.Random, length: int) -> str:
    if length < MODULUS:
        digit = draws.choice(_DIGITS)
        return (digit, f"-{digit}", f"({digit})", f"(-{digit})")[length - 1]
    left = draws.randrange(1, length - 3)
    parts = (_expression(draws, left), _expression(draws, length - 3 - left))
    return f"({parts[0]}{draws.choice('+-')}{parts[1]})"


def _value(text: str) -> int:
    """The value of an expression of digits, "+", "-" and brackets, modulo 5."""
    sums, signs = [0], [1]
    for symbol in text:
        if symbol == "(":
            sums.append(0)
            signs.append(1)
        elif symbol == "-":
            signs[-1] = -signs[-1]
        elif symbol != "+":
            if symbol == ")":
                signs.pop()
            operand = sums.pop() if symbol == ")" else int(symbol)
            sums[-1] += signs[-1] * operand
            signs[-1] = 1
    return sums[0] % MODULUS


def modular_arithmetic(text: str) -> str:
    """The value of digits with "+", "-" and brackets."""
    return str(_value(text))


def _equation(draws: random.Random, length: int) -> str:
    text = _expression(draws, max(1, length - 2))
    place = draws.choice([place for place, symbol in enumerate(text) if symbol in _DIGITS])
    return f"{text[:place]}{_UNKNOWN}{text[place + 1 :]}={_value(text)}"


def solve_equation(text: str) -> str:
    """The digit that "x" stands for, before "=" and the value of an expression."""
    expression, value = text.split("=")
    # x has the factor 1 or -1.
    rest, one_more = (_value(expression.replace(_UNKNOWN, digit)) for digit in "01")
    return str((int(value) - rest) * (one_more - rest) % MODULUS)


def duplicate_string(text: str) -> str:
    """The string twice."""
    return text + text


def _twice_with_a_gap(draws: random.Random, length: int) -> str:
    text = 2 * _any_of(_BITS, draws, max(1, length // 2))
    place = draws.randrange(len(text))
    return text[:place] + _MISSING + text[place + 1 :]


def missing_duplicate(text: str) -> str:
    """The bit at "?", in a string that stands twice."""
    half = len(text) // 2
    return text[(text.index(_MISSING) + half) % len(text)]


def odds_first(text: str) -> str:
    """The first, third, fifth, ... symbol, then the second, fourth, ..."""
    return text[::2] + text[1::2]


def _two_numbers(sign: str, draws: random.Random, length: int) -> str:
    if length <= len(_BITS):
        return _any_of(_BITS, draws, length)
    text = _any_of(_BITS, draws, length)
    place = draws.randrange(1, length - 1)
    return text[:place] + sign + text[place + 1 :]


def _of_numbers(sign: str, result: Callable[[list[int]], int], text: str) -> str:
    value = result([int(number[::-1], 2) for number in text.split(sign)])
    return f"{value:b}"[::-1] + END


def compute_sqrt(text: str) -> str:
    """The root of a binary number, rounded down, in half as many bits."""
    return f"{math.isqrt(int(text, 2)):0{math.ceil(len(text) / 2)}b}"


def bucket_sort(text: str) -> str:
    """The digits in ascending order."""
    return "".join(sorted(text))


_bits = functools.partial(_any_of, _BITS)
_digits = functools.partial(_any_of, _DIGITS)
_moves = functools.partial(_any_of, "".join(_MOVES))
_summands = functools.partial(_two_numbers, "+")
_factors = functools.partial(_two_numbers, "*")
binary_addition = functools.partial(_of_numbers, "+", sum)
binary_multiplication = functools.partial(_of_numbers, "*", math.prod)
_SUMS, _WITH_END = _DIGITS + "+-()", _BITS + END
TASKS = {
    # Regular.
    "even_pairs": Task(_BITS, _BITS, _bits, even_pairs, 0, 1),
    "modular_arithmetic_simple": Task(
        _DIGITS + "+-*", _DIGITS, _flat_expression, modular_arithmetic_simple, 0, 1
    ),
    "parity_check": Task(_BITS, _BITS, _bits, parity_check, 0, 1),
    "cycle_navigation": Task("".join(_MOVES), _DIGITS, _moves, cycle_navigation, 0, 1),
    # Deterministic context-free.
    "stack_manipulation": Task(
        _BITS + "pab", _WITH_END, _stack_and_actions, stack_manipulation, 1, 1
    ),
    "reverse_string": Task(_BITS, _BITS, _bits, reverse_string, 1, 0),
    "modular_arithmetic": Task(_SUMS, _DIGITS, _expression, modular_arithmetic, 0, 1),
    "solve_equation": Task(_SUMS + "x=", _DIGITS, _equation, solve_equation, 0, 1),
    # Context-sensitive.
    "duplicate_string": Task(_BITS, _BITS, _bits, duplicate_string, 2, 0),
    "missing_duplicate": Task(_BITS + "?", _BITS, _twice_with_a_gap, missing_duplicate, 0, 1),
    "odds_first": Task(_BITS, _BITS, _bits, odds_first, 1, 0),
    "binary_addition": Task(_BITS + "+", _WITH_END, _summands, binary_addition, 1, 1),
    "binary_multiplication": Task(_BITS + "*", _WITH_END, _factors, binary_multiplication, 1, 1),
    "compute_sqrt": Task(_BITS, _BITS, _bits, compute_sqrt, 0.5, 0),
    "bucket_sort": Task(_DIGITS, _DIGITS, _digits, bucket_sort, 1, 0),
}
