"""Writes the tables in docs/ that follow from the code, between their markers: ``make docs``.

How it works: a marked section begins with ``<!-- generated: name -->`` and ends with ``<!-- end
-->``. The hyperparameters' texts are the string literals below the fields in ``ut_tf/network.py``
and ``ut_tf/config/training.py``. A test compares the files with what this script would write.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from pathlib import Path

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.config.network import NetworkConfig
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.hparams.catalogue import HPARAMS_SETS
from ut_tf.hparams.tensor2tensor import SETS, UNAVAILABLE
from ut_tf.models.catalogue import MODELS

ROOT = Path(__file__).resolve().parent.parent
FILES = ("docs/hyperparameters.md", "docs/models.md")
_TENSOR2TENSOR = SETS.keys() | UNAVAILABLE.keys()
_SECTION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def generated(text: str) -> str:
    """Returns `text` with every marked section written anew."""
    return _SECTION.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", text)


def fields_table(config: type) -> str:
    """Returns a table per group of fields of a class of hyperparameters."""
    module = inspect.getmodule(config)
    assert module is not None
    source = inspect.getsource(module)
    body = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == config.__name__
    ).body
    headings = {
        number: line.strip("# .")
        for number, line in enumerate(source.splitlines(), 1)
        if re.match(r"    # [A-Z]", line)
    }
    lines: list[str] = []
    before = body[0].lineno
    for node, text in itertools.pairwise(body):
        if not (
            isinstance(node, ast.AnnAssign)
            and isinstance(text, ast.Expr)
            and node.value is not None
        ):
            continue
        heading = next(
            (headings[number] for number in range(before, node.lineno) if number in headings), None
        )
        if heading:
            lines += [
                "",
                f"### {heading}",
                "",
                "| name | values | default | |",
                "|---|---|---|---|",
            ]
        before = node.lineno
        name, default = ast.unparse(node.target), ast.unparse(node.value).strip("'")
        lines.append(
            f"| `{name}` | {_values(node.annotation)} | `{default}` |"
            f" {_cell(ast.literal_eval(text.value))} |"
        )
    return "\n".join(lines).strip()


def our_sets_table() -> str:
    """Returns the sets of our own with their sizes."""
    lines = ["| set | d / filter / heads | steps | |", "|---|---|---|---|"]
    for name in (name for name in HPARAMS_SETS if name not in _TENSOR2TENSOR):
        hparams: HParams = registry.hparams_sets.get(name)().resolve()
        network = hparams.network
        steps = (
            str(network.num_steps)
            if network.halting == "none"
            else f"at most {network.act_max_steps}"
        )
        steps = (
            f"{network.num_layers} layer{'s' if network.num_layers > 1 else ''}"
            if "universal" not in hparams.model
            else steps
        )
        steps = f"{network.num_steps} hops" if hparams.model == "memn2n" else steps
        sizes = (
            f"{network.hidden_size} / {network.filter_size} / {network.num_heads}"
            if "transformer" in hparams.model
            else network.hidden_size
        )
        lines.append(
            f"| `{name}` | {sizes} | {steps} | {_cell(registry.hparams_sets.describe(name))} |"
        )
    return "\n".join(lines)


def models_table() -> str:
    """Returns every model with what it is."""
    lines = ["| model | |", "|---|---|"]
    return "\n".join(
        [*lines, *(f"| `{name}` | {_cell(entry.description)} |" for name, entry in MODELS.items())]
    )


def tensor2tensor_sets_table() -> str:
    """Returns the sets under tensor2tensor's names."""
    lines = ["| set | |", "|---|---|"]
    for name in (name for name in HPARAMS_SETS if name in _TENSOR2TENSOR):
        lines.append(
            f"| `{name}` | {_missing(name) or _cell(registry.hparams_sets.describe(name))} |"
        )
    return "\n".join(lines)


def _missing(name: str) -> str:
    try:
        registry.hparams_sets.get(name)()
    except UserError:
        return _cell(registry.hparams_sets.describe(name))
    return ""


def _values(annotation: ast.expr) -> str:
    text = ast.unparse(annotation)
    optional = " or None" if text.endswith(" | None") else ""
    kind = text.removesuffix(" | None")
    if kind.startswith("Literal["):
        return ", ".join(f"`{option}`" for option in ast.literal_eval(f"[{kind[8:-1]}]")) + optional
    return {"int": "whole number", "float": "number", "bool": "true, false"}[kind] + optional


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


TABLES = {
    "network": lambda: fields_table(NetworkConfig),
    "training": lambda: fields_table(TrainingConfig),
    "models": models_table,
    "our_sets": our_sets_table,
    "tensor2tensor_sets": tensor2tensor_sets_table,
}


def main() -> None:
    """Rewrites the files."""
    for name in FILES:
        path = ROOT / name
        path.write_text(generated(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
