"""The library names arguments; flags are the commands' alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ut_tf

ROOT = Path(ut_tf.__file__).resolve().parent
# Folders whose messages are still to be changed.
EXEMPT: frozenset[str] = frozenset()
# These name flags of srun.
OF_SLURM = {"training/cluster.py"}


def _docstrings(tree: ast.AST) -> set[int]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, kinds)]
    first = [body[0].value for body in bodies if body and isinstance(body[0], ast.Expr)]
    return {id(value) for value in first}


def _texts_with_flags(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = _docstrings(tree)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
            and re.search(r"--[a-z]", node.value)
        ):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"


def test_no_text_of_the_library_names_a_flag() -> None:
    files = [
        path
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in {*EXEMPT, "problems", "hparams", "bin"}
        and path.relative_to(ROOT).as_posix() not in OF_SLURM
    ]
    assert len(files) > 50
    assert [text for path in files for text in _texts_with_flags(path)] == []
