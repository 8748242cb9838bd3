"""Constituency trees: read from brackets, simplified, linearised, and rebuilt from symbols.

How it is used::

    tree, = read_trees("( (S (NP-SBJ (PRP it)) (VP (VBZ works)) (. .)) )", "notes.mrg")
    plain = simplify(tree)                                # no traces, no functional tags
    linearise(plain)  # ["(S", "(NP", "XX", ")NP", "(VP", "XX", ")VP", "XX", ")S"]
    rebuild(linearise(plain), plain.leaves())             # (plain, False)

The sequence is that of Vinyals et al. (arXiv 1412.7449), with all parts of speech as XX, or with
the words instead of XX.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ut_tf.errors import UserError
from ut_tf.problems.parsing.alignment import LEAF, align

ROOT = "TOP"
_ROOTS = ("", "TOP", "ROOT", "S1")
_TRACE = "-NONE-"
# Far above any sentence's, far below what recursion, here and in the scorer, can follow.
_DEEPEST = 100
_SYMBOLS = re.compile(r"\(|\)|[^\s()]+|\n")


@dataclass(frozen=True, slots=True)
class Tree:
    """A constituent with its children, or a leaf: a word and, as its label, the part of speech."""

    label: str
    children: "tuple[Tree, ...]" = ()
    word: str = ""

    def leaves(self) -> "list[Tree]":
        """The leaves from left to right."""
        return (
            [leaf for child in self.children for leaf in child.leaves()]
            if self.children
            else [self]
        )

    def __str__(self) -> str:
        """The tree in brackets on one line."""
        return f"({self.label} {' '.join(map(str, self.children)) if self.children else self.word})"


@dataclass(slots=True)
class _Open:
    """A bracket that has been opened and not yet closed; its first symbol is a label, and a word
    follows or children do.
    """

    line: int
    label: str | None = None
    word: str = ""
    children: list[Tree] = field(default_factory=list)


def read_trees(text: str, name: str) -> Iterator[Tree]:
    """Yields the trees of a text in the Penn Treebank's brackets, the outermost label empty or not.

    Args:
      text: any number of trees, over any number of lines.
      name: of the file, for messages.

    Raises:
      UserError: names the file and the line where brackets are not balanced or are more than a
        hundred deep, or where a bracket holds neither a word nor constituents.
    """
    line, stack = 1, list[_Open]()
    for symbol in _SYMBOLS.findall(text):
        if symbol == "\n":
            line += 1
        elif symbol == "(":
            if len(stack) == _DEEPEST:
                raise _malformed(name, line, f"more than {_DEEPEST} brackets are open")
            stack.append(_Open(line))
        elif not stack:
            fault = (
                "a bracket is closed that was not opened"
                if symbol == ")"
                else f"{symbol!r} stands outside of brackets"
            )
            raise _malformed(name, line, fault)
        elif symbol == ")":
            tree = _closed(stack.pop(), bool(stack), name, line)
            if not stack:
                yield tree
                continue
            if stack[-1].word:
                raise _malformed(
                    name, line, f"a constituent follows the word {stack[-1].word!r} in its bracket"
                )
            stack[-1].children.append(tree)
        else:
            _add(stack[-1], symbol, name, line)
    if stack:
        raise _malformed(name, stack[0].line, "a bracket is opened and never closed")


def simplify(tree: Tree) -> Tree | None:
    """The tree without traces, without functional tags and indices, and without a root of no
    meaning; None: no word is left.

    Of "NP-SBJ-1", "NP=2" and "ADVP|PRT" the first part stays. A constituent that held traces alone
    is left out.
    """
    plain = _without_traces(tree)
    if plain is None or plain.label not in _ROOTS:
        return plain
    return plain.children[0] if len(plain.children) == 1 else Tree(ROOT, plain.children)


def linearise(tree: Tree, with_words: bool = False) -> list[str]:
    """The symbols of a tree: "(S" where a constituent opens, ")S" where it closes, XX for a word
    (or the word, `with_words`).
    """
    if not tree.children:
        return [tree.word if with_words else LEAF]
    inner = (symbol for child in tree.children for symbol in linearise(child, with_words))
    return [f"({tree.label}", *inner, f"){tree.label}"]


def rebuild(symbols: Iterable[str], leaves: Sequence[Tree]) -> tuple[Tree, bool]:
    """The tree that symbols describe over given leaves, and whether they had to be repaired.

    A closing symbol closes everything open inside of its constituent too; one whose constituent is
    not open is left out, and so is an opening beyond 100; what is open at the end is closed.
    Symbols for words are aligned with the sentence's words (``alignment``): superfluous ones are
    left out; a word without a symbol goes before the next one that has one or, at the end, becomes
    the last child of the outermost constituent. A constituent without a word is left out.

    Args:
      symbols: any, as a model writes them; all but brackets count as words.
      leaves: the sentence's, one at least; their words and parts of speech are those of the tree.
    """
    stack = [_Open(0, ROOT)]
    symbols = list(symbols)
    stands_for = align(
        [symbol for symbol in symbols if symbol[0] not in "()"], [leaf.word for leaf in leaves]
    )
    used = {place for places in stands_for for place in places}
    mended = len(used) != len(leaves) or any(len(places) != 1 for places in stands_for)
    words = iter(stands_for)
    for symbol in symbols:
        kind, label = symbol[:1], symbol[1:]
        if kind == "(" and label and len(stack) <= _DEEPEST:
            stack.append(_Open(0, label))
        elif kind == ")" and (
            open_ones := [
                depth for depth, bracket in enumerate(stack) if depth and bracket.label == label
            ]
        ):
            mended |= open_ones[-1] != len(stack) - 1
            mended |= _close(stack, open_ones[-1])
        elif kind not in "()":
            stack[-1].children.extend(leaves[place] for place in next(words))
        else:
            mended = True
    mended |= len(stack) > 1
    mended |= _close(stack, 1)
    roots = stack[0].children
    if len(used) < len(leaves):
        _append(roots, leaves[len(used) :])
    whole = roots[0] if len(roots) == 1 else Tree(ROOT, tuple(roots))
    return whole, mended or len(roots) != 1


def _close(stack: list[_Open], depth: int) -> bool:
    """Closes what is open from `depth` on; returns whether one of them had no word and was left
    out.
    """
    is_empty = False
    while len(stack) > depth:
        closed = stack.pop()
        if closed.children:
            stack[-1].children.append(Tree(str(closed.label), tuple(closed.children)))
        else:
            is_empty = True
    return is_empty


def _append(roots: list[Tree], leaves: Sequence[Tree]) -> None:
    """Adds leaves to the last of the roots, if it is a constituent, or beside it."""
    if roots and roots[-1].children:
        roots[-1] = Tree(roots[-1].label, (*roots[-1].children, *leaves))
    else:
        roots.extend(leaves)


def _add(bracket: _Open, symbol: str, name: str, line: int) -> None:
    if bracket.label is None and not bracket.children:
        bracket.label = symbol
    elif bracket.word or bracket.children:
        raise _malformed(name, line, f"{symbol!r} follows a word or a constituent in one bracket")
    else:
        bracket.word = symbol


def _closed(bracket: _Open, is_inner: bool, name: str, line: int) -> Tree:
    if not bracket.word and not bracket.children:
        raise _malformed(name, line, "a bracket holds neither a word nor a constituent")
    if is_inner and bracket.label is None:
        raise _malformed(name, line, "a bracket inside of a tree has no label")
    return Tree(bracket.label or "", tuple(bracket.children), bracket.word)


def _without_traces(tree: Tree) -> Tree | None:
    if not tree.children:
        return None if tree.label == _TRACE else tree
    children = tuple(
        plain for child in tree.children if (plain := _without_traces(child)) is not None
    )
    # The labels of brackets, -LRB-, begin with a hyphen; they stand at leaves, whose parts of
    # speech have no functional tags.
    return Tree(re.split("[-=|]", tree.label)[0] or tree.label, children) if children else None


def _malformed(name: str, line: int, fault: str) -> UserError:
    return UserError(
        f"{name}, line {line}: {fault}; expected trees in the Penn Treebank's brackets: correct the"
        " file."
    )
