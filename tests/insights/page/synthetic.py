"""Documents of insights with made-up numbers, of every kind that the page draws."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

STORY = [
    *("dimitri went to the studio", "dimitri went to the pantry", "dimitri picked up the umbrella"),
    *("clara returned to the pantry", "dimitri dropped the umbrella", "clara walked to the studio"),
    *("dimitri picked up the letter", "clara grabbed the coin", "where is the letter"),
]
RULES = [
    {"name": "state_difference", "threshold": 0.03},
    {"name": "kl", "threshold": 0.001},
    {"name": "argmax_stable", "threshold": 5.0},
]


def document(kind: str, examples: list[dict[str, Any]], runs: int = 1) -> dict[str, Any]:
    """A document of one kind; with two runs the second one has a fixed depth."""
    names = ["ut_act", "ut_fixed"][:runs]
    return {
        "format": "ut-tf-insights",
        "version": 1,
        "title": {
            "facts": "Questions about stories",
            "text": "English to German",
            "language_model": "The next word",
            "board": "Filling in a board",
        }[kind],
        "runs": [_run(name, kind) for name in names],
        "examples": examples,
    }


def _run(name: str, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "problem": f"{kind}_problem",
        "hparams_set": name,
        "model": "universal_transformer",
        "checkpoint": 1500,
        "num_parameters": 208_699,
        "halting": "none" if name == "ut_fixed" else "basic",
        "exit_rule": "none",
        "num_heads": 4,
        "kind": kind,
        "facts": {"problem": f"{kind}_problem", "set": name, "parameters": "208,699"},
        "histograms": [] if name == "ut_fixed" else [_histogram()],
        "exit_rules": RULES,
    }


def _histogram() -> dict[str, Any]:
    return {
        "title": "Ponder times by supporting facts",
        "unit": "steps",
        "part": "encoder",
        "groups": [
            {"name": "1 supporting fact", "counts": [0, 10, 820, 90, 20, 4, 0]},
            {"name": "2 supporting facts", "counts": [0, 2, 700, 190, 60, 30, 9]},
            {"name": "3 supporting facts", "counts": [0, 0, 610, 250, 90, 60, 44]},
        ],
    }


def facts_example(name: str = "story", runs: int = 1) -> dict[str, Any]:
    """The story of the docs: the question takes six steps, the facts two or three."""
    ponder_times = [2, 2, 2, 2, 3, 2, 2, 3, 6]
    roles = ["fact"] * 8 + ["question"]
    part = _part("encoder", "facts and question", STORY, roles, ponder_times, heads=4)
    look = np.full((6, 9), 0.02)
    look[0, [3, 5, 7]] = [0.3, 0.26, 0.2]
    look[1:, 1] = [0.62, 0.81, 0.7, 0.66, 0.6]
    look[1:, 0] = 0.15
    weights = part.pop("weights")
    weights[:, :, 8] = look[:, np.newaxis]
    weights[2, 3, 8] = np.eye(9)[6]
    part["attention"] = encoded(weights)
    part["predictions"] = [
        [_choices("studio", 0.41, "pantry", "kitchen")],
        [_choices("studio", 0.47, "pantry", "garden")],
        *([_choices("pantry", p, "studio", "kitchen")] for p in (0.72, 0.88, 0.93, 0.94)),
    ]
    thought = {"answer": "pantry", "probability": 0.94, "correct": True, "parts": [part]}
    thoughts: list[dict[str, Any] | None] = [thought]
    if runs == 2:
        thoughts.append(_fixed_depth(thought))
    return _example(name, "where is the letter", "pantry", "2 supporting facts", thoughts)


def _fixed_depth(thought: dict[str, Any]) -> dict[str, Any]:
    """The same thought of a model that takes four steps everywhere and answers wrongly."""
    (part,) = thought["parts"]
    positions = [{**position, "ponder_time": 4, "remainder": 0.0} for position in part["positions"]]
    weights = _softmax(np.random.default_rng(7).normal(size=(4, 4, 9, 9)))
    fixed = {
        **part,
        "steps": 4,
        "max_steps": 4,
        "positions": positions,
        "halting_probability": None,
        "state_change": part["state_change"][:4],
        "attention": encoded(weights),
        "predictions": part["predictions"][:2] + [part["predictions"][0]] * 2,
    }
    return {"answer": "studio", "probability": 0.41, "correct": False, "parts": [fixed]}


def text_example() -> dict[str, Any]:
    """A translation: an encoder of two to three steps, a decoder whose fifth symbol takes five."""
    source = ["a", "man", "sits", "on", "a", "bench", "<end>"]
    output = ["ein", "mann", "sitzt", "auf", "einer", "bank", "<end>"]
    roles = ["token"] * 6 + ["end"]
    encoder = _part("encoder", "source", source, roles, [2, 2, 3, 2, 2, 3, 2], heads=2)
    encoder["attention"] = encoded(encoder.pop("weights"))
    decoder = _part("decoder", "output", output, roles, [2, 2, 3, 2, 5, 4, 1], heads=2, causal=True)
    decoder["attention"] = encoded(decoder.pop("weights"))
    memory = np.full((5, 2, 7, 7), 0.04)
    memory[:, :, range(7), range(7)] = 0.76
    decoder["memory_attention"] = encoded(memory)
    steps = [[_choices(word, 0.8, "der", "die") for word in output] for _ in range(5)]
    for step, guess in enumerate(["ein", "einem", "einem"]):
        steps[step][4] = _choices(guess, 0.4, "einer", "der")
    decoder["predictions"] = steps
    thought = {
        "answer": "ein mann sitzt auf einer bank",
        "probability": 0.31,
        "correct": None,
        "parts": [encoder, decoder],
    }
    target = "ein mann sitzt auf einer bank"
    return _example("bench", "a man sits on a bench", target, "length 7", [thought])


def language_model_example(length: int = 24, steps: int = 5) -> dict[str, Any]:
    """A text in which every seventh word takes all steps."""
    text = "the quick brown fox jumps over the lazy dog and then it sleeps under a tree"
    words = text.split()
    texts = [words[index % len(words)] for index in range(length)]
    ponder_times = [steps if index % 7 == 6 else 2 + index % 2 for index in range(length)]
    part = _part("decoder", "text", texts, ["token"] * length, ponder_times, heads=2, causal=True)
    part["attention"] = encoded(part.pop("weights"))
    part["predictions"] = [
        [_choices(text if step > 1 else "a", 0.5 + 0.05 * step, "of", "to") for text in texts]
        for step in range(steps)
    ]
    thought = {"answer": texts[-1], "probability": 0.7, "correct": True, "parts": [part]}
    title = " ".join(texts[:8])
    return _example(f"text{length}", title, texts[-1], f"length {length}", [thought])


def board_example(rows: int = 4, columns: int = 4) -> dict[str, Any]:
    """A Latin square of 2 x 2 boxes, filled in row after row, with one value that is mended."""
    solved = np.array([[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]]).ravel()
    given = np.arange(16) % 3 == 0
    texts = [str(value) if shown else "." for value, shown in zip(solved, given, strict=True)]
    ponder_times = [1 if shown else 2 + index // columns for index, shown in enumerate(given)]
    part = _part("encoder", "board", texts, ["cell"] * 16, ponder_times, heads=2)
    part["attention"] = encoded(part.pop("weights"))
    part["board"] = {"rows": rows, "columns": columns, "box_rows": 2, "box_columns": 2}
    part["predictions"] = [
        [
            _choices(str(value if step >= time else value % 4 + 1), 0.9, "1", "2")
            for value, time in zip(solved, ponder_times, strict=True)
        ]
        for step in range(1, part["steps"] + 1)
    ]
    part["low_state_change"] = part["state_change"]
    part |= {"residual": [None, 0.5, 0.25, 0.125, 0.0625], "low_residual": [0.031] * 5}
    part["q_halt"] = [0.25] * 5
    answer = "".join(map(str, solved))
    thought = {"answer": answer, "probability": 0.8, "correct": True, "parts": [part]}
    return _example("square", "".join(texts), answer, "6 given", [thought])


def untrusted_example() -> dict[str, Any]:
    """Markup and script wherever a text may stand."""
    attack = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>&lt;b&gt;'
    example = facts_example("untrusted")
    (thought,) = example["thoughts"]
    (part,) = thought["parts"]
    part["label"] = attack
    for position in part["positions"]:
        position["text"] = attack
    for step in part["predictions"]:
        for choice in step[0]:
            choice["text"] = attack
    part["exit_steps"] = {attack: [2] * 9}
    thought["answer"] = attack
    return {**example, "title": attack, "target": attack, "input": attack, "group": attack}


def encoded(weights: np.ndarray) -> dict[str, Any]:
    """Attention weights [steps, heads, queries, keys] with every key."""
    data = np.round(255 * weights).clip(0, 255).astype("u1").tobytes()
    return {
        "shape": list(weights.shape),
        "indices": None,
        "weights": base64.b64encode(data).decode(),
        "averaged": False,
    }


def _example(
    name: str, title: str, target: str | None, group: str | None, thoughts: list[Any]
) -> dict[str, Any]:
    return {
        "id": name,
        "title": title,
        "target": target,
        "input": title,
        "group": group,
        "thoughts": thoughts,
    }


def _part(
    name: str,
    label: str,
    texts: list[str],
    roles: list[str],
    ponder_times: list[int],
    heads: int,
    causal: bool = False,
) -> dict[str, Any]:
    random = np.random.default_rng(len(texts))
    steps, length = max(ponder_times), len(texts)
    step = np.arange(1, steps + 1)[:, np.newaxis]
    times = np.array(ponder_times)
    probabilities = np.where(step < times, 0.8 / np.maximum(times - 1, 1), 0.6) * (step <= times)
    change = np.where(step <= times, 0.9 * 0.45**step * (1 + times / 5), 0.0)
    rules = {
        "state_difference": [int(time) for time in times],
        "kl": [None if time == steps else int(time) for time in times],
        "argmax_stable": [None] * length,
    }
    part = {
        "name": name,
        "label": label,
        "steps": steps,
        "max_steps": max(8, steps),
        "positions": [
            {"text": text, "role": role, "ponder_time": time, "remainder": 0.2}
            for text, role, time in zip(texts, roles, ponder_times, strict=True)
        ],
        "halting_probability": probabilities.round(4).tolist(),
        "state_change": change.round(4).tolist(),
        "exit_steps": rules,
        "attention": None,
        "memory_attention": None,
        "predictions": None,
        "board": None,
    }
    if heads:
        scores = 2 * random.normal(size=(steps, heads, length, length))
        if causal:
            scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        part["weights"] = _softmax(scores)
    return part


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _choices(first: str, probability: float, second: str, third: str) -> list[dict[str, Any]]:
    rest = 1 - probability
    return [
        {"text": first, "probability": round(probability, 4)},
        {"text": second, "probability": round(0.6 * rest, 4)},
        {"text": third, "probability": round(0.2 * rest, 4)},
    ]
