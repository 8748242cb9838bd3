"""The sets to begin with, by problem."""

import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import yaml


@functools.cache
def _by_pattern() -> Mapping[str, Sequence[str]]:
    content = Path(__file__).with_suffix(".yaml").read_bytes()
    patterns: Mapping[str, Sequence[str]] = yaml.safe_load(content)
    return patterns


def first_sets(problem: str) -> tuple[str, ...]:
    """The names of the sets for one of ut-tf's problems; none where there is no recipe for it."""
    sets = (sets for name, sets in _by_pattern().items() if fnmatchcase(problem, name))
    return tuple(next(sets, ()))
