"""The text of a problem's arguments."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ClassVar, Literal, TypedDict, Unpack

import numpy as np
import pytest

from ut_tf import registry
from ut_tf.data.argument_help import argument_help

if TYPE_CHECKING:
    from missing import Missing


class First(TypedDict, total=False):
    """Options.

    Args:
      size: how large
        it is.
    """

    size: int


class Options(First, total=False):
    """More options.

    Args:
      kind: "old" or "new".
    """

    kind: Literal["old", "new"]


class Base:
    """A base.

    Args:
      name: of the problem.
      seed: of every draw.
    """

    def __init__(self, name: str, size: int = 3, seed: int = 0) -> None:
        self.name, self.size, self.seed = name, size, seed


class Made(Base):
    """A problem.

    Args:
      name, seed: as for Base.
      files: what it reads.
    """

    file_arguments: ClassVar[dict[str, str]] = {"files": "files"}

    def __init__(
        self, name: str = "made", files: str = "", seed: int = 7, **options: Unpack[Options]
    ) -> None:
        super().__init__(name, options.get("size", 3), seed)
        self.files = files


def test_texts_come_from_the_class_its_base_and_its_options() -> None:
    assert argument_help(Made) == {
        "files": "what it reads; a file or several",
        "seed": "of every draw; a whole number; default: 7",
        "size": "how large it is; a whole number; default: 3",
        "kind": '"old" or "new"',
    }


def test_what_a_name_is_bound_to_is_its_default() -> None:
    assert argument_help(functools.partial(Made, seed=9))["seed"].endswith("default: 9")


def test_a_factory_without_docstring_has_types_alone() -> None:
    assert argument_help(lambda digits=3: digits) == {"digits": "default: 3"}


def test_own_problems_may_have_any_annotation_default_and_style_of_docstring() -> None:
    class Own:
        """An own problem.

        Args:
            digits (int): how many.
            low, high: the bounds.
            kind: as many as wanted.
        """

        def __init__(
            self, digits: Missing = 3, low: int = 0, high: object = np.zeros(2), kind: str = ""
        ) -> None:
            self.values = digits, low, high, kind

    described = argument_help(Own)
    assert described["digits"].startswith("how many") and described["digits"].endswith("default: 3")
    assert described["high"] == "the bounds"
    assert described["kind"].startswith("as many as wanted")


@pytest.mark.parametrize(
    "name", ["babi_qa", "lambada_lm", "lte_program", "parse_ptb", "sudoku_6x6", "prefix_sums_32"]
)
def test_every_argument_of_a_problem_is_described(name: str) -> None:
    described = argument_help(registry.problems.get(name))
    bare = {"a text", "a number", "a whole number", "true or false", "a file"}
    assert described
    assert not [key for key, text in described.items() if text.partition(";")[0] in bare]
