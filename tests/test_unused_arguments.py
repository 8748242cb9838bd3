"""A method reads what it is given, unless its class shares the method with others that do."""

import ast
from collections.abc import Iterator
from pathlib import Path

import ut_tf
from ut_tf import bin, problems

PACKAGES = [Path(package.__path__[0]) for package in (ut_tf, bin, problems)]
# Called by Keras, other packages and the operating system; or what cells and problems of user code
# read.
OF_OTHERS = {
    *("build", "_split_generators", "get_redirect_target", "_stop", "look", "block_input"),
    *("text_metrics", "text_intervals"),
}


def _methods(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and not part.name.startswith("__"):
                    yield node.name, part


def _arguments(method: ast.FunctionDef) -> dict[str, bool]:
    """Whether the method reads each of its arguments."""
    read = {node.id for node in ast.walk(method) if isinstance(node, ast.Name)}
    arguments = method.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    names = [argument.arg for argument in named if argument.arg not in ("self", "cls")]
    return {name: name in read for name in names if not name.startswith("_")}


def _is_declaration(method: ast.FunctionDef) -> bool:
    return all(isinstance(part, ast.Expr | ast.Raise | ast.Pass) for part in method.body)


def test_an_argument_that_no_class_reads_is_none() -> None:
    files = [file for folder in PACKAGES for file in sorted(folder.rglob("*.py"))]
    found = [
        (name, method, _arguments(method))
        for file in files
        for name, method in _methods(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert len(found) > 1000
    read = {
        (method.name, argument)
        for _, method, arguments in found
        for argument, is_read in arguments.items()
        if is_read or _is_declaration(method)
    }
    unread = [
        f"{name}.{method.name}: {argument}"
        for name, method, arguments in found
        for argument in arguments
        if (method.name, argument) not in read and method.name not in OF_OTHERS
    ]
    assert unread == []
