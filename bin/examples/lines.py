"""An example and what a model thought of it, as lines for a terminal.

The examples and thoughts are those of a document of insights (docs/insights.md).

Example::

    2.0 ████      boris grabbed the umbrella
    5.0 ██████████ where is the umbrella
    pantry (98%), right
"""

import dataclasses
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ut_tf.bin.examples.board import board_lines
from ut_tf.bin.examples.notes import Part, guesses, percent, position_notes, step_words
from ut_tf.bin.frame.terminal import Terminal

_INDENT = "  "
_PER_STEP = 2
_WIDEST_BAR = 24
# Of more positions with short texts several share a line.
_MOST_LINES, _SHORT_TEXT = 16, 2
_GUESS_WIDTH = 24
_MOST_STEPS = 8
# All but the codes of colours: words of data and of others' models must not command a terminal.
_CONTROL = re.compile(r"(?!\033\[\d*m)[\x00-\x1f\x7f-\x9f]")
_MEANINGS = {
    "residual": "how far a step moves the states, as a share of their size",
    "low level": "the same of the low level",
    "q halts": "how sure the model is at that step that its answer is right",
}
_ROLE_COLOURS = {"fact": "blue", "question": "red"}


def example_lines(example: Mapping[str, Any], terminal: Terminal) -> list[str]:
    """The lines of an example: a bar and the number of steps for each position, what it attends to
    or answers, and the answer; of a board the board after each step.

    Args:
      example: of a document of insights; its first thought is shown.
      terminal: where the lines are shown.
    """
    (thought, *_) = example["thoughts"]
    lines = [terminal.coloured(example["group"], "bold")] if example["group"] else []
    parts = thought["parts"]
    for part in parts:
        if len(parts) > 1:
            lines.append(f"{_INDENT}{part['label']}:")
        encoder = parts[0] if part is not parts[0] else None
        lines += _part_lines(part, encoder, example["target"], terminal)
        lines += _guess_line(part, terminal) + _step_lines(part, terminal)
    answer = _answer_line(thought, example["target"], terminal)
    shown = [_CONTROL.sub("?", line) for line in [*lines, answer]]
    if terminal.has_drawing:
        return shown
    return [line.encode("ascii", "backslashreplace").decode("ascii") for line in shown]


def _part_lines(
    part: Part, encoder: Part | None, target: str | None, terminal: Terminal
) -> list[str]:
    if part["board"]:
        narrower = dataclasses.replace(terminal, width=terminal.width - len(_INDENT))
        lines = board_lines(part, target, narrower)
        if lines:
            return [f"{_INDENT}{line}" for line in lines]
    if _is_long(part):
        return _compact_lines(part, terminal)
    return _position_lines(part, encoder, terminal)


def _position_lines(part: Part, encoder: Part | None, terminal: Terminal) -> list[str]:
    positions = part["positions"]
    most = max(part["max_steps"], part["steps"], 1)
    bar_width = min(_PER_STEP * most, _WIDEST_BAR)
    longest = max((len(position["text"]) for position in positions), default=0)
    left = len(_INDENT) + len("99 ") + bar_width + 1
    notes = position_notes(part, encoder, terminal)
    note_width = max(map(len, notes), default=0)
    text_width = max(8, min(longest, terminal.width - left - (note_width + 2 if notes else 0)))
    lines = []
    for position, note in zip(positions, notes or [""] * len(positions), strict=True):
        time = position["ponder_time"]
        colour = _ROLE_COLOURS.get(position["role"], "blue")
        bar = terminal.coloured(terminal.bar(time, bar_width / most, bar_width), colour)
        text = terminal.cut(position["text"], text_width)
        shown = f"{text:<{text_width}}  {terminal.coloured(note, 'bold')}" if note else text
        lines.append(f"{_INDENT}{time:>2.0f} {bar} {shown}")
    return lines


def _compact_lines(part: Part, terminal: Terminal) -> list[str]:
    """The symbols beside each other, below each an upright bar and its number of steps."""
    most = max(part["max_steps"], part["steps"], 1)
    columns = []
    for position in part["positions"]:
        time = position["ponder_time"]
        cells = (position["text"], terminal.level(time / most), f"{time:.0f}")
        width = max(map(len, cells))
        columns.append([cell.ljust(width) for cell in cells])
    lines: list[str] = []
    for chunk in _chunks(columns, terminal.width - len(_INDENT)):
        symbols, bars, times = (" ".join(cells).rstrip() for cells in zip(*chunk, strict=True))
        shown = [symbols, *([terminal.coloured(bars, "blue")] if bars else []), times]
        lines += [f"{_INDENT}{line}" for line in shown]
    return lines


def _chunks(columns: Sequence[Sequence[str]], width: int) -> Iterator[Sequence[Sequence[str]]]:
    """The columns in rows of at most `width` characters."""
    first, used = 0, 0
    for number, column in enumerate(columns):
        size = len(column[0]) + 1
        if number > first and used + size > width:
            yield columns[first:number]
            first, used = number, 0
        used += size
    yield columns[first:]


def _is_long(part: Part) -> bool:
    """Whether a part has many positions with short texts, digits for one."""
    lengths = sorted(len(position["text"]) for position in part["positions"])
    return len(lengths) > _MOST_LINES and lengths[len(lengths) // 2] <= _SHORT_TEXT


def _guess_line(part: Part, terminal: Terminal) -> list[str]:
    """What a classifier would answer after each step, where there are several."""
    predictions = part["predictions"] or []
    if part["name"] != "encoder" or len(predictions) < 2 or len(predictions[-1]) != 1:
        return []
    shown = "; ".join(
        f"{step_words(steps)}: {terminal.cut(text, _GUESS_WIDTH)} {percent(probability)}"
        for steps, text, probability in guesses(part, 0)
    )
    return [f"{_INDENT}after {shown}"]


def _step_lines(part: Part, terminal: Terminal) -> list[str]:
    """How far the states of a fixed depth, of two levels or beside a Q value still move at each
    step, and what that value is, with a word on what this means; of many steps at 1, 2, 4 and so
    on.
    """
    values = {"residual": part.get("residual"), "low level": part.get("low_residual")}
    count, q_halt = len(values["residual"] or ()), part.get("q_halt") or []
    if count < 2 or (part["halting_probability"] and not q_halt):
        return []
    steps = [n for n in range(1, count + 1) if count <= _MOST_STEPS or n in (n & -n, count)]
    rows = {"step": [str(step) for step in steps]}
    for name, of_steps in values.items():
        numbers = [of_steps[step - 1] for step in steps] if of_steps else []
        rows[name] = ["-" if number is None else f"{number:.2g}" for number in numbers]
    rows["q halts"] = [percent(q_halt[step - 1]) for step in steps if q_halt]
    shown = {name: cells for name, cells in rows.items() if cells}
    columns = [list(shown), *(list(cells) for cells in zip(*shown.values(), strict=True))]
    widths = [max(map(len, column)) for column in columns]
    padded = [[cell.ljust(w) for cell in column] for column, w in zip(columns, widths, strict=True)]
    chunks = _chunks(padded, terminal.width - len(_INDENT))
    rows_of = (zip(*chunk, strict=True) for chunk in chunks)
    lines = [f"{_INDENT}{' '.join(row).rstrip()}" for rows in rows_of for row in rows]
    words = "; ".join(f"{name}: {_MEANINGS[name]}" for name in shown if name in _MEANINGS)
    told = textwrap.wrap(f"({words})", terminal.width - len(_INDENT))
    return [*lines, *(f"{_INDENT}{line}" for line in told)]


def _answer_line(thought: Mapping[str, Any], target: str | None, terminal: Terminal) -> str:
    probability = thought["probability"]
    answer = terminal.coloured(thought["answer"], "bold")
    shown = "" if probability is None else f" ({percent(probability)})"
    verdict = ""
    if thought["correct"]:
        verdict = ", " + terminal.coloured("right", "green")
    elif thought["correct"] is False:
        told = "it breaks the rules" if target is None else f"it is {target}"
        verdict = ", " + terminal.coloured(f"wrong: {told}", "red")
    elif target is not None:
        verdict = f"; the reference: {target}"
    return f"{_INDENT}answer: {answer}{shown}{verdict}"
