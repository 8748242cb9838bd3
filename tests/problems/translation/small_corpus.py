"""Tiny parallel texts, and examples of them as text."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import tensorflow as tf

from ut_tf.problems.translation.own_files import TranslateFiles

TRAIN = [
    (f"the number {n} and {'so ' * (n % 9)}on", f"die Zahl {n} und {'immer ' * (n % 4)}weiter")
    for n in range(200)
]
DEV = [
    ("the number  7", "die Zahl sieben"),
    ("", "leer"),
    ("a number 😀", "eine Zahl"),
    ("x\u2028y", "z "),
]
TEST = [("the end", "das Ende"), ("so on", "und so weiter")]


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> tuple[str, str]:
    """Writes the two sides of pairs and returns the names of their files."""
    paths = []
    for side, language in enumerate(("en", "de")):
        path = folder / f"{name}.{language}.gz"
        path.write_bytes(gzip.compress("".join(f"{pair[side]}\n" for pair in pairs).encode()))
        paths.append(str(path))
    return paths[0], paths[1]


def problem_of(folder: Path, **options: Any) -> TranslateFiles:
    """Returns the problem of the files train, dev and test in a folder."""
    names = {"": "train", "dev_": "dev", "test_": "test"}
    files = {
        f"{prefix}{side}_files": f"{folder}/{name}.{language}.gz"
        for prefix, name in names.items()
        for side, language in (("source", "en"), ("target", "de"))
    }
    return TranslateFiles(**{"vocab_size": 320, **files, **options})


def told(problem: Any, split: str, data_dir: Path, **options: Any) -> list[tuple[str, str]]:
    """Returns each example as text."""
    codec = problem.text_codec(problem.vocab_files(data_dir)[0].parent)
    examples = list(problem.dataset(split, data_dir, **options).as_numpy_iterator())
    sides = ([example[name] for example in examples] for name in ("inputs", "targets"))
    texts = (
        codec.decode(tf.ragged.constant(side, dtype=tf.int32).to_tensor()).numpy() for side in sides
    )
    return [(source.decode(), target.decode()) for source, target in zip(*texts, strict=True)]


def plain(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the pairs with one blank where there are several, and none at the ends."""
    return [
        (" ".join(source.split(" ")).strip().replace("  ", " "), target.strip())
        for source, target in pairs
    ]
