"""Labelled brackets compared: precision, recall and F1, by PYEVALB with the rules of EVALB's
COLLINS.prm.

How it is used::

    counts = [compare("(S (NP XX )NP (VP XX )VP )S", "(S (NP (PRP it)) (VP (VBZ works)))")]
    scores(counts)     # {"f1": 100.0, ..., "exact_match": 100.0, "malformed": 0.0}

Both trees get the reference's parts of speech. Punctuation (, : `` '' .) is taken out, with the
constituents that hold nothing else; the root TOP does not count; PRT counts as ADVP. Malformed
output is repaired by ``trees.rebuild`` and counts with the brackets that it then has.
"""

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ut_tf.metrics.intervals import Floats, Interval, bootstrap, wilson
from ut_tf.packages import imported
from ut_tf.problems.parsing.alignment import LEAF
from ut_tf.problems.parsing.trees import ROOT, Tree, read_trees, rebuild

_PUNCTUATION = frozenset({",", ":", "``", "''", "."})
_EQUAL = {"PRT": "ADVP"}
_COMPARED = 100_000


class Counts(NamedTuple):
    """Counts of one sentence: brackets of both trees, of the reference, of the output; whether all
    are equal; whether it was mended.
    """

    matched: int
    expected: int
    written: int
    is_exact: bool
    is_malformed: bool


@functools.lru_cache(maxsize=_COMPARED)
def compare(written: str, reference: str) -> Counts:
    """The counts of an output.

    Args:
      written: symbols with blanks between them, as ``trees.linearise`` gives them.
      reference: the right tree in brackets, with words and parts of speech.

    Raises:
      UserError: the reference is no tree, or PYEVALB is not installed.
    """
    right = next(read_trees(reference, "reference"))
    tree, is_malformed = rebuild(written.split(), right.leaves())
    expected, given = _for_scorer(right), _for_scorer(tree)
    if expected is None or given is None:  # Nothing but punctuation.
        return Counts(0, 0, 0, True, is_malformed)
    matched, of_reference, of_output = _compared(expected, given)
    return Counts(
        matched, of_reference, of_output, matched == of_reference == of_output, is_malformed
    )


def scores(counts: Iterable[Counts]) -> dict[str, float]:
    """Returns f1, precision and recall over all brackets, and the shares of exact and of malformed
    outputs, all in percent.
    """
    sums = np.array(list(counts), np.float64).reshape(-1, len(Counts._fields))
    matched, expected, written, exact, malformed = sums.sum(0)
    return {
        "f1": float(_percent(2 * matched, expected + written)),
        "precision": float(_percent(matched, written)),
        "recall": float(_percent(matched, expected)),
        "exact_match": float(_percent(exact, len(sums))),
        "malformed": float(_percent(malformed, len(sums))),
    }


def intervals(counts: Iterable[Counts]) -> dict[str, Interval]:
    """The 95 % intervals of ``scores``: Wilson's of the shares, by bootstrap over sentences of the
    others.
    """
    sums = np.array(list(counts), np.float64).reshape(-1, len(Counts._fields))
    ratios = {
        "f1": lambda sums: _percent(2 * sums[..., 0], sums[..., 1] + sums[..., 2]),
        "precision": lambda sums: _percent(sums[..., 0], sums[..., 2]),
        "recall": lambda sums: _percent(sums[..., 0], sums[..., 1]),
    }
    bounds = {name: bootstrap(sums, ratio) for name, ratio in ratios.items()}
    for name, column in (("exact_match", 3), ("malformed", 4)):
        low, high = wilson(int(sums[:, column].sum()), len(sums))
        bounds[name] = 100.0 * low, 100.0 * high
    return {name: interval for name, interval in bounds.items() if interval is not None}


def _percent(part: Any, whole: Any) -> Floats:
    """Returns 100 part / whole, and 0 where there is nothing: an output without any bracket has
    none right.
    """
    return np.asarray(
        np.divide(
            100.0 * np.asarray(part),
            whole,
            out=np.zeros(np.shape(part)),
            where=np.asarray(whole) != 0,
        )
    )


def _compared(expected: str, given: str) -> tuple[int, int, int]:
    """The brackets that both have, and those of each, as PYEVALB counts them, the added root left
    out.
    """
    need = "scores of parses need"
    create_from_bracket_string = imported("PYEVALB.parser", need).create_from_bracket_string
    result = (
        imported("PYEVALB.scorer", need)
        .Scorer()
        .score_trees(create_from_bracket_string(expected), create_from_bracket_string(given))
    )
    return result.matched_brackets - 1, result.gold_brackets - 1, result.test_brackets - 1


def _for_scorer(tree: Tree) -> str | None:
    """A tree in brackets below one root, by the rules of the module's text, its words numbered;
    None: no word is left.
    """
    numbered = iter(range(len(tree.leaves())))
    kept = _scored(tree, numbered)
    return f"({ROOT} {' '.join(_brackets(child, ()) for child in kept)})" if kept else None


def _scored(tree: Tree, numbers: Any) -> tuple[Tree, ...]:
    """The replacement of a tree: nothing, the tree, or its children."""
    if not tree.children:
        number = next(numbers)
        return () if tree.label in _PUNCTUATION else (Tree(LEAF, word=str(number)),)
    children = tuple(kept for child in tree.children for kept in _scored(child, numbers))
    if not children or tree.label == ROOT:
        return children
    return (Tree(_EQUAL.get(tree.label, tree.label), children),)


def _brackets(tree: Tree, around: tuple[str, ...]) -> str:
    """A tree in brackets; `around` are the labels of the constituents outside of it that hold the
    same words.
    """
    if not tree.children:
        return str(tree)
    inside = (*around, tree.label) if len(tree.children) == 1 else ()
    written = " ".join(_brackets(child, inside) for child in tree.children)
    return f"({tree.label}{'+' * around.count(tree.label)} {written})"
