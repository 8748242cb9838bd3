"""The sets to begin with, by problem."""

import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ut_tf.loading import read_yaml


@functools.cache
def _by_pattern() -> Mapping[str, Sequence[str]]:
    patterns: Mapping[str, Sequence[str]] = read_yaml(Path(__file__).with_suffix(".yaml"))
    return patterns


def first_sets(problem: str) -> tuple[str, ...]:
    """The names of the sets for one of ut-tf's problems; none where there is no recipe for it."""
    sets = (sets for name, sets in _by_pattern().items() if fnmatchcase(problem, name))
    return tuple(next(sets, ()))
