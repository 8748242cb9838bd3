"""The tables of tensor2tensor's names promise nothing that is not there: every flag,
hyperparameter, problem and command that they name exists.
"""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ut_tf import registry
from ut_tf.bin.frame.flags import hyperparameters
from ut_tf.bin.trainer_flags import FLAGS as TRAINER_FLAGS
from ut_tf.config.hparams import HParams
from ut_tf.config.tensor2tensor import FLAGS, HINTS, REMOVED, RENAMED, SAME
from ut_tf.errors import UserError

ROOT = Path(__file__).resolve().parent.parent


def _page() -> str:
    """Returns the page with its generated tables, as the site has it."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    text = (ROOT / "docs" / "tensor2tensor.md").read_text(encoding="utf-8")
    filled: str = generate.generated(text)
    return filled


PAGE = _page()


def _commands() -> dict[str, set[str]]:
    """The flags of each command, with their other names."""
    commands = {"ut-trainer": TRAINER_FLAGS}
    for path in (ROOT / "bin").glob("[a-z]*.py"):
        module = importlib.import_module(f"ut_tf.bin.{path.stem}")
        if hasattr(module, "COMMAND") and hasattr(module, "FLAGS"):
            commands[module.COMMAND] = module.FLAGS
    return {
        command: {name for flag in flags for name in (flag.name, *flag.aliases)}
        for command, flags in commands.items()
    }


COMMANDS = _commands()


def test_same_flags_are_flags_of_the_commands_that_are_named() -> None:
    for name, (kind, text) in FLAGS.items():
        for command in text.split() if kind == "same" else ():
            assert name in COMMANDS[command], f"{command} --{name}"


def test_flags_that_are_named_instead_exist() -> None:
    every_flag = set().union(*COMMANDS.values())
    for name, (kind, text) in FLAGS.items():
        if kind == "same":
            continue
        for flag, field in re.findall(r"--(\w+)(?:=(\w+)=)?", text):
            assert flag in every_flag, f"{name}: --{flag}"
            assert flag != "hparams" or field in hyperparameters(), f"{name}: {field}"
        for command in re.findall(r"ut-[a-z-]+", text):
            assert command == "ut-tf" or command in COMMANDS, f"{name}: {command}"


def test_hyperparameters_that_are_named_exist() -> None:
    known = hyperparameters()
    assert {*SAME, *RENAMED.values()} <= known
    assert not known & HINTS.keys()
    for text in HINTS.values():
        words = re.findall(r"\b[a-z]+_[a-z_]+\b|\b\w+(?==)", text)
        assert all(word in known for word in words), text
    assert not {*SAME} & HINTS.keys() and not HINTS.keys() & REMOVED.keys()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num_rec_steps", "here it is num_steps"),
        ("add_or_concat_timing_signal", "here it is coordinate_form"),
        ("moe_num_experts", "of tensor2tensor's it is not here: no mixtures of experts"),
    ],
)
def test_hyperparameters_are_answered(name: str, text: str) -> None:
    with pytest.raises(UserError, match=text):
        HParams().override(f"{name}=1")


def _rows(heading: str) -> Iterator[tuple[list[str], str, str]]:
    """(tensor2tensor's names, kind, what is here) of each row of a section's table."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            theirs, kind, here = (cell.strip() for cell in line.split("|")[1:4])
            assert kind in ("same", "renamed", "gone"), line
            yield re.findall(r"`([^`]+)`", theirs), kind, here


def test_commands_that_are_named_exist() -> None:
    rows = list(_rows("Commands"))
    assert sum(len(theirs) for theirs, _, _ in rows) == 16
    for _, _, here in rows:
        for command in re.findall(r"`(ut-[a-z-]+)", here):
            assert command in COMMANDS


def test_problems_that_are_named_exist() -> None:
    known = registry.problems.names()
    rows = list(_rows("Problems"))
    assert sum(len(theirs) for theirs, _, _ in rows) > 60
    for theirs, kind, here in rows:
        for name in theirs if kind == "same" else ():
            assert fnmatch.filter(known, name), name
        for name in re.findall(r"`([^`]+)`", here):
            assert name in known, name


def test_tables_cover_each_name_once() -> None:
    names = [name for theirs, _, _ in _rows("Problems") for name in theirs]
    assert len(names) == len(set(names))
    assert len(list(_rows("Flags"))) == len(FLAGS)
    assert len(list(_rows("Hyperparameters"))) == len(SAME) + len(HINTS) + len(REMOVED)
