"""An example and what a model thought of it, as lines for a terminal.

The examples and thoughts are those of a document of insights (docs/insights.md).

Example::

    2.0 ████      boris grabbed the umbrella
    5.0 ██████████ where is the umbrella
    pantry (98%), right
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ut_tf.bin.terminal import Terminal

_INDENT = "  "
_PER_STEP = 2
_WIDEST_BAR = 24
_LEAST_SHARE = 0.2
# All but the codes of colours: words of data and of others' models must not command a terminal.
_CONTROL = re.compile(r"(?!\033\[\d*m)[\x00-\x1f\x7f-\x9f]")
_ROLE_COLOURS = {"fact": "blue", "question": "red"}


def example_lines(example: Mapping[str, Any], terminal: Terminal) -> list[str]:
    """The lines of an example: a bar and the number of steps for each position, what the question
    attends to, and the answer.

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
        board = _board_lines(part, terminal) if part["board"] else None
        lines += board or _position_lines(part, encoder, terminal)
    answer = _answer_line(thought, example["target"], terminal)
    shown = [_CONTROL.sub("?", line) for line in [*lines, answer]]
    return [line if terminal.has_drawing else _in_ascii(line) for line in shown]


def attention_weights(attention: Mapping[str, Any], step: int) -> np.ndarray:
    """The weights of a step, averaged over heads, [queries, keys]; keys that are not among the
    strongest have 0.

    Args:
      attention: of a part of a document of insights.
      step: from 0.
    """
    shape = tuple(attention["shape"])
    weights = np.frombuffer(base64.b64decode(attention["weights"]), np.uint8).reshape(shape)[step]
    if attention["indices"] is None:
        return np.asarray(weights.mean(0) / 255.0)
    indices = np.frombuffer(base64.b64decode(attention["indices"]), "<u2").reshape(shape)[step]
    dense = np.zeros((*weights.shape[:2], int(indices.max()) + 1))
    np.put_along_axis(dense, indices.astype(np.int64), weights / 255.0, axis=-1)
    return np.asarray(dense.mean(0))


def _position_lines(
    part: Mapping[str, Any], encoder: Mapping[str, Any] | None, terminal: Terminal
) -> list[str]:
    positions = part["positions"]
    most = max(part["max_steps"], part["steps"], 1)
    bar_width = min(_PER_STEP * most, _WIDEST_BAR)
    longest = max((len(position["text"]) for position in positions), default=0)
    left = len(_INDENT) + len("99 ") + bar_width + 1
    notes = _notes(part, encoder, terminal)
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


def _notes(
    part: Mapping[str, Any], encoder: Mapping[str, Any] | None, terminal: Terminal
) -> list[str]:
    """A note for each position: of facts at which steps the question attends to it most, of outputs
    the source that it attends to most; none where no attention is known.
    """
    question = next(
        (
            number
            for number, position in enumerate(part["positions"])
            if position["role"] == "question"
        ),
        None,
    )
    if question is not None and part["attention"]:
        return _question_notes(part, question, terminal)
    if encoder is not None and part["memory_attention"]:
        return _source_notes(part, encoder["positions"], terminal)
    return []


def _question_notes(part: Mapping[str, Any], question: int, terminal: Terminal) -> list[str]:
    """For each position "<- steps 2 to 5, up to 72%": where the question looks."""
    positions = part["positions"]
    steps: dict[int, list[tuple[int, float]]] = {}
    for step in range(int(positions[question]["ponder_time"])):
        weights = attention_weights(part["attention"], step)[question]
        best = int(weights.argmax())
        if weights[best] >= _LEAST_SHARE and best != question:
            steps.setdefault(best, []).append((step + 1, float(weights[best])))
    return [
        _attended(terminal, steps[number]) if number in steps else ""
        for number in range(len(positions))
    ]


def _attended(terminal: Terminal, steps: Sequence[tuple[int, float]]) -> str:
    numbers = [number for number, _ in steps]
    most = max(weight for _, weight in steps)
    plural = "s" if len(numbers) > 1 else ""
    return f"{terminal.arrow} step{plural} {_ranges(numbers)}: {most:.0%}"


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as "1, 3-5"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ranges)


def _source_notes(
    part: Mapping[str, Any], sources: Sequence[Mapping[str, Any]], terminal: Terminal
) -> list[str]:
    """For each output the source that it attends to most at its last step."""
    notes = []
    for number, position in enumerate(part["positions"]):
        step = max(0, min(int(position["ponder_time"]), part["memory_attention"]["shape"][0]) - 1)
        weights = attention_weights(part["memory_attention"], step)[number]
        best = int(weights.argmax())
        notes.append(f"{terminal.arrow} {sources[best]['text']} {weights[best]:.0%}")
    return notes


def _board_lines(part: Mapping[str, Any], terminal: Terminal) -> list[str]:
    """The answered board and, beside it, the ponder time of each cell."""
    board, positions = part["board"], part["positions"]
    cells = [position for position in positions if position["role"] == "cell"]
    rows, columns = board["rows"], board["columns"]
    if len(cells) < rows * columns:
        return []
    texts = [position["text"] or "." for position in cells]
    last = part["predictions"][-1] if part["predictions"] else None
    first = len(positions) - len(cells)
    if last is not None and len(last) == len(positions):
        texts = [
            position[0]["text"] if position else text
            for position, text in zip(last[first:], texts, strict=True)
        ]
    times = [f"{position['ponder_time']:.0f}" for position in cells]
    return [
        f"{_INDENT}{left}    {terminal.coloured(right, 'blue')}"
        for left, right in zip(
            _grid(texts, rows, columns), _grid(times, rows, columns), strict=True
        )
    ]


def _grid(texts: Sequence[str], rows: int, columns: int) -> Iterator[str]:
    width = max(map(len, texts))
    for row in range(rows):
        yield " ".join(text.rjust(width) for text in texts[row * columns : (row + 1) * columns])


def _answer_line(thought: Mapping[str, Any], target: str | None, terminal: Terminal) -> str:
    probability = thought["probability"]
    answer = terminal.coloured(thought["answer"], "bold")
    shown = "" if probability is None else f" ({_percent(probability)})"
    verdict = ""
    if thought["correct"]:
        verdict = ", " + terminal.coloured("right", "green")
    elif thought["correct"] is False:
        verdict = ", " + terminal.coloured(f"wrong: it is {target}", "red")
    elif target is not None:
        verdict = f"; the reference: {target}"
    return f"{_INDENT}answer: {answer}{shown}{verdict}"


def _percent(probability: float) -> str:
    # A probability is never quite 1.
    return ">99%" if probability > 0.995 else f"{probability:.0%}"


def _in_ascii(line: str) -> str:
    return line.encode("ascii", "backslashreplace").decode("ascii")
