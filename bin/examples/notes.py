"""What stands beside the positions of an example in a terminal: what they attend to, and what the
model answers there.

A part is of a thought of a document of insights (docs/insights.md).
"""

import base64
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ut_tf.bin.frame.terminal import Terminal

Part = Mapping[str, Any]
"""A part of a thought, as a document of insights has it."""
_LEAST_SHARE = 0.2


def position_notes(part: Part, encoder: Part | None, terminal: Terminal) -> list[str]:
    """A note for each position, or none at all: of facts at which steps the question attends to
    them most, of outputs how probable they are and the source that they attend to most, of other
    symbols the answer at that position.

    Args:
      part: whose positions they are.
      encoder: the part that it attends to besides itself; None: there is none.
      terminal: where they are shown.
    """
    roles = [position["role"] for position in part["positions"]]
    if "question" in roles:
        question = roles.index("question")
        return _question_notes(part, question, terminal) if part["attention"] else []
    answers = _answer_notes(part, terminal)
    if encoder is None or not part["memory_attention"]:
        return answers
    sources = _source_notes(part, encoder["positions"], terminal)
    return ["  ".join(pair) for pair in zip(answers, sources, strict=True)] if answers else sources


def guesses(part: Part, position: int) -> list[tuple[str, str, float]]:
    """What the model would answer at a position after each step, as runs of steps with the same
    answer: (steps, text, probability after the last of them).
    """
    tops = [step[position][0] for step in part["predictions"] or [] if step[position]]
    runs = itertools.groupby(enumerate(tops, 1), lambda numbered: numbered[1]["text"])
    steps = [(text, list(run)) for text, run in runs]
    return [
        (ranges([step for step, _ in run]), text, run[-1][1]["probability"]) for text, run in steps
    ]


def changes(example: Mapping[str, Any]) -> int:
    """How often the first thought's guesses change from step to step, over all positions."""
    part = example["thoughts"][0]["parts"][-1]
    positions = range(len((part["predictions"] or [[]])[0]))
    return sum(max(len(guesses(part, position)) - 1, 0) for position in positions)


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


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as "1, 3-5"."""
    # Within a run all numbers are as far from their places.
    groups = itertools.groupby(enumerate(numbers), lambda placed: placed[1] - placed[0])
    runs = [[number for _, number in group] for _, group in groups]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def step_words(steps: str) -> str:
    """Ranges of steps with their noun: "step 1", "steps 2-3"."""
    return f"step {steps}" if steps.isdecimal() else f"steps {steps}"


def percent(probability: float) -> str:
    """A probability as people read it; it is never quite 1."""
    return ">99%" if probability > 0.995 else f"{probability:.0%}"


def _question_notes(part: Part, question: int, terminal: Terminal) -> list[str]:
    """For each position "<- steps 2-5: 72%": where the question looks."""
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
    return f"{terminal.arrow} {step_words(ranges(numbers))}: {most:.0%}"


def _answer_notes(part: Part, terminal: Terminal) -> list[str]:
    """For each position its answer with the probability, and the answers of earlier steps."""
    positions = part["positions"]
    if not part["predictions"] or len(part["predictions"][-1]) != len(positions):
        return []
    return [
        _answered(guesses(part, number), position["text"], part["name"] == "decoder", terminal)
        for number, position in enumerate(positions)
    ]


def _answered(
    runs: Sequence[tuple[str, str, float]], text: str, is_written: bool, terminal: Terminal
) -> str:
    """An answer as "97%" where it is the position's own text, else "-> the 97%"; "(step 1: a)" adds
    what it was at first.
    """
    if not runs:
        return ""
    *earlier, (_, last, probability) = runs
    shown = percent(probability)
    if not is_written or last != text:
        shown = f"{terminal.forward} {_named(last)} {shown}"
    if not earlier:
        return shown
    before = "; ".join(f"{step_words(steps)}: {_named(guess)}" for steps, guess, _ in earlier)
    return f"{shown} ({before})"


def _named(text: str) -> str:
    """A symbol among words: one without letters and digits, such as a comma, is quoted."""
    return text if any(map(str.isalnum, text)) else f'"{text}"'


def _source_notes(part: Part, sources: Sequence[Any], terminal: Terminal) -> list[str]:
    """For each output the source that it attends to most at its last step."""
    notes = []
    for number, position in enumerate(part["positions"]):
        step = max(0, min(int(position["ponder_time"]), part["memory_attention"]["shape"][0]) - 1)
        weights = attention_weights(part["memory_attention"], step)[number]
        best = int(weights.argmax())
        notes.append(f"{terminal.arrow} {sources[best]['text']} {weights[best]:.0%}")
    return notes
