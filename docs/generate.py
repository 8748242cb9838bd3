"""Writes the tables in docs/ that follow from the code, between their markers: ``make docs``.

How it works: a marked section begins with ``<!-- generated: name -->`` and ends with ``<!-- end
-->``. The hyperparameters' texts are the string literals below their fields. A test compares the
files with what this script would write. Sections of other pages, and ``<!-- site: name -->`` on any
page, are filled by the site alone (``site.py``); the latter may name a table of kept results.
"""

import inspect
import re
from pathlib import Path
from typing import Any

from ut_tf import registry
from ut_tf.bin.frame.hyperparameter_help import texts, values
from ut_tf.config import tensor2tensor
from ut_tf.config.families import config_class
from ut_tf.config.fields import choices_of, declaration, fields_of, types_of
from ut_tf.config.part_options import every_option, kind_of
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError
from ut_tf.hparams.catalogue import HPARAMS_SETS, TENSOR2TENSOR
from ut_tf.models.catalogue import MODELS
from ut_tf.tables.kept_tables import KeptTables
from ut_tf.tables.rendered import as_markdown

ROOT = Path(__file__).resolve().parent.parent
FILES = ("docs/hyperparameters.md", "docs/models.md")
_HEAD = ("| name | values | default | |", "|---|---|---|---|")
_SECTION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_OF_SITE = re.compile(r"<!-- site: (\w+) -->")


def generated(text: str) -> str:
    """Returns `text` with every marked section written anew."""
    return _SECTION.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", text)


def filled(text: str) -> str:
    """Returns `text` as the site has it: with the sections that files do not hold."""
    return _OF_SITE.sub(lambda found: _of_site(found[1]), generated(text))


def _of_site(name: str) -> str:
    if name in TABLES:
        return TABLES[name]()
    return as_markdown(KeptTables.read(sorted((ROOT / "results").glob("*.jsonl"))).render(name))


def fields_table() -> str:
    """Returns the names of all fields, in their groups."""
    groups: dict[str, list[str]] = {}
    for line in f"{network_tables()}\n{training_tables()}".splitlines():
        name = line.removeprefix("| ").partition(" | ")[0]
        if name.startswith("**"):
            fields = groups.setdefault(name.strip("*"), [])
        elif name.startswith("`") and name not in fields:
            fields.append(name)
    rows = [f"| {group} | {', '.join(fields)} |" for group, fields in groups.items()]
    return "\n".join(["| group | hyperparameters |", "|---|---|", *rows])


def network_tables() -> str:
    """Returns a table of the networks' fields; a row above each group names the models with it."""
    owners: dict[type, list[str]] = {}
    for model in MODELS:
        for base in reversed(config_class(model).__mro__):
            if "title" in vars(base):
                owners.setdefault(base, []).append(f"`{model}`")
    lines = [*_HEAD]
    for group, models in owners.items():
        others = [f"`{model}`" for model in MODELS if f"`{model}`" not in models]
        of = f"of {', '.join(models)}"
        if len(others) < len(models):
            of = f"all models except {', '.join(others)}" if others else "all models"
        lines += [_group(f"{group.title}: {of}"), *rows(group)]  # type: ignore[attr-defined]
    return "\n".join(lines)


def training_tables() -> str:
    """Returns a table of the fields of training, in their groups."""
    source = inspect.getsource(TrainingConfig).splitlines()
    lines = [*_HEAD]
    found = dict(zip(texts(TrainingConfig), rows(TrainingConfig), strict=True))
    for line in source:
        if re.match(r"    # [A-Z]", line):
            lines.append(_group(line.strip("# .")))
        elif (field := re.match(r"    (\w+): ", line)) and field[1] in found:
            lines.append(found[field[1]])
    return "\n".join(lines)


def _group(title: str) -> str:
    return f"| **{title}** | | | |"


def rows(config: type) -> list[str]:
    """Returns a line for each field that the class itself declares, and below it one for each
    option of the parts that it chooses.
    """
    lines = []
    for name, text in texts(config).items():
        lines.append(_row(name, fields_of(config)[name], types_of(config)[name], text))
        lines += [
            _row(option, field, kind_of(field), f"Of {part}: {declaration(field).text}.")
            for option, part, field in every_option(config)
            if option.partition(".")[0] == name
        ]
    return lines


def _row(name: str, field: Any, annotation: Any, text: str) -> str:
    named, is_optional = values(field, annotation)
    shown = [f"`{value}`" for value in named] if choices_of(field, annotation) else named
    expected = ", ".join(shown) + (" or None" if is_optional else "")
    return f"| `{name}` | {expected} | `{field.default}` | {_cell(text)} |"


def models_table() -> str:
    """Returns every model with what it is."""
    lines = ["| model | |", "|---|---|"]
    return "\n".join(
        [*lines, *(f"| `{name}` | {_cell(entry.description)} |" for name, entry in MODELS.items())]
    )


def tensor2tensor_sets_table() -> str:
    """Returns the sets under tensor2tensor's names."""
    lines = ["| set | |", "|---|---|"]
    for name in (name for name in HPARAMS_SETS if name in TENSOR2TENSOR):
        lines.append(
            f"| `{name}` | {_missing(name) or _cell(registry.hparams_sets.describe(name))} |"
        )
    return "\n".join(lines)


def tensor2tensor_flags_table() -> str:
    """Returns every flag of tensor2tensor's commands with what it is here."""
    lines = ["| flag of tensor2tensor | | here |", "|---|---|---|"]
    for name, (kind, text) in sorted(tensor2tensor.FLAGS.items()):
        here = ", ".join(f"`{command}`" for command in text.split()) if kind == "same" else text
        lines.append(f"| `--{name}` | {kind} | {_cell(here)} |")
    return "\n".join(lines)


def tensor2tensor_hparams_table() -> str:
    """Returns every hyperparameter of tensor2tensor's Transformers with what it is here."""
    lines = ["| hyperparameter of tensor2tensor | | here |", "|---|---|---|"]
    rows = dict.fromkeys(tensor2tensor.SAME, ("same", ""))
    rows |= {name: ("renamed", text) for name, text in tensor2tensor.HINTS.items()}
    rows |= {name: ("gone", text) for name, text in tensor2tensor.REMOVED.items()}
    for name, (kind, text) in sorted(rows.items()):
        lines.append(f"| `{name}` | {kind} | {_cell(text)} |")
    return "\n".join(lines)


def _missing(name: str) -> str:
    try:
        registry.hparams_sets.get(name)()
    except UserError:
        return _cell(registry.hparams_sets.describe(name))
    return ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


TABLES = {
    "fields": fields_table,
    "network": network_tables,
    "training": training_tables,
    "models": models_table,
    "tensor2tensor_sets": tensor2tensor_sets_table,
    "tensor2tensor_flags": tensor2tensor_flags_table,
    "tensor2tensor_hparams": tensor2tensor_hparams_table,
}


def main() -> None:
    """Rewrites the files."""
    for name in FILES:
        path = ROOT / name
        path.write_text(generated(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
