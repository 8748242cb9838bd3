"""Bad command lines of every command: made from the flags that it declares, and lists by hand.

A case is a command line that no command can answer: each must be refused in one line.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tiny

COMMANDS = (
    "trainer",
    "datagen",
    "eval",
    "avg_checkpoints",
    "show",
    "decoder",
    "bleu",
    "translate_all",
    "exporter",
    "report",
    "sweep",
    "query",
    "serve",
    "import_t2t",
    "insights",
)


@dataclass(frozen=True)
class Case:
    """One bad command line.

    Args:
      command: its module in ut_tf.bin.
      argv: the words.
      about: what is bad, as the table of outcomes names it.
      environment: variables set for it; None: unset.
    """

    command: str
    argv: tuple[str, ...]
    about: str
    environment: Mapping[str, str | None] = field(default_factory=dict)

    def __str__(self) -> str:
        words = " ".join(word if len(word) < 80 else f"{word[:70]}..." for word in self.argv)
        return f"{self.command} {words!r} {dict(self.environment) or ''}"


def good_lines(folder: Path) -> dict[str, list[str]]:
    """A line of each command that it answers; what it writes is named new, new.html and so on."""
    run, new = f"--output_dir={folder / 'run'}", folder / "new"
    data = [f"--data_dir={folder / 'data'}", f"--tmp_dir={folder / 'tmp'}"]
    ende = f"--output_dir={folder / 'ende' / 'run'}"
    names = [f"--problem={tiny.PROBLEM}", f"--hparams_set={tiny.HPARAMS_SET}"]
    given = [f"--problem_args={tiny.PROBLEM_ARGS}"]
    texts = [f"--translation={folder / 'lines.txt'}", f"--reference={folder / 'lines.txt'}"]
    return {
        "trainer": [
            *names,
            f"--hparams={tiny.SIZES}",
            *given,
            f"--output_dir={new}",
            *data,
            "--train_steps=1",
        ],
        "datagen": [names[0], *given, *data],
        "eval": [run],
        "avg_checkpoints": [run, f"--avg_dir={new}", "--n=2"],
        "show": [run, "--examples=1"],
        "decoder": [run, f"--decode_from_file={folder / 'questions.txt'}"],
        "bleu": texts,
        "translate_all": [ende, f"--avg_dir={new}", "--n=2"],
        "exporter": [run, f"--export_dir={new}"],
        "report": [str(folder / "run")],
        "sweep": [
            f"--problems={tiny.PROBLEM}",
            f"--hparams_sets={tiny.HPARAMS_SET}",
            f"--output_dir={new}",
            "--dry_run",
        ],
        "query": [f"--decode_from_file={folder / 'lines.txt'}", "--server=SERVER"],
        "serve": [f"--export_dir={folder / 'export'}", "--port=0"],
        "import_t2t": [f"--t2t_dir={folder / 't2t'}", f"--output_dir={new}", *data],
        "insights": [run, f"--html={new}.html", "--examples=1"],
    }


LONG_NAME = "a" * 300
_INTEGERS = ("abc", "1.5", "", "1e9", "9" * 5000, "\u00b2", "0x1g", "nan", "1,2", " ", "5 6", "inf")
_FLOATS = ("abc", "nan", "", "1,5", "-inf", "--", "1e")
_BOOLEANS = ("maybe", "2", "tru", "-1")
_NAMES = (
    "nosuch",
    "a b",
    "../../etc/passwd",
    "a\nb",
    "\x1b[2Jred",
    "'; rm -rf /",
    "%s%n",
    "{}",
    "\u65e5\u672c",
    "a" * 5000,
    "-",
    "None",
    "\udce4",
)
# Flags whose value is one of some names.
_CHOICES = {
    "problem",
    "problems",
    "hparams_set",
    "hparams_sets",
    "checkpoint",
    "compare_checkpoint",
    "split",
    "test_problem",
    "format",
    "dtype",
    "quantize",
    "signatures",
    "bleu_variant",
    "tokenize",
    "tensorboard",
    "tracker",
    "cluster",
    "schedule",
    "exit_sweep",
    "seeds",
    "lengths",
    "steps",
    "checkpoints",
    "tables",
    "server",
}
# Where a flag's file is read, and where it is written.
_READ = {
    "decode_from_file",
    "score_file",
    "input_file",
    "translation",
    "reference",
    "source",
    "source_files",
    "config",
    "flagfile",
    "runs",
    "compare_with",
    "warm_start_from",
    "t2t_dir",
    "usr_dir",
}
_WRITTEN = {"decode_to_file", "html", "output", "figures", "avg_dir", "export_dir"}
_ALSO_WRITTEN = {("json", "insights"), ("translation", "translate_all")}
_FOLDERS = {"output_dir", "data_dir", "tmp_dir"}
# Accepted by tensor2tensor's users, and without a meaning here.
_IDLE = {"eval_steps", "num_shards", "max_cases", "license", "upload_to"}


def flags_of(command: str) -> tuple[Any, ...]:
    """The flags that a command declares."""
    if command == "trainer":
        return tuple(importlib.import_module("ut_tf.bin.trainer_flags").FLAGS)
    return tuple(importlib.import_module(f"ut_tf.bin.{command}").FLAGS)


def of_flags(folder: Path) -> Iterator[Case]:
    """Yields unknown flags, words without flags, and bad values of every flag."""
    for command, line in good_lines(folder).items():
        flags = flags_of(command)
        yield from _unknown(command, line, flags)
        for flag in flags:
            for value in _bad_values(flag, folder, command):
                about = f"{flag.kind} flags" if flag.kind != "string" else _about(flag.name)
                without = [word for word in line if not word.startswith(f"--{flag.name}=")]
                if flag.positional:
                    yield Case(command, (value,), about)
                else:
                    yield Case(command, (*without, f"--{flag.name}={value}"), about)
            if flag.kind in ("string", "integer", "float") and not flag.alone:
                yield Case(command, (*line, f"--{flag.name}"), "flags without a value")
            if flag.required:
                short = [
                    word
                    for word in line
                    if not word.startswith(f"--{flag.name}=") and not flag.positional
                ]
                yield Case(command, tuple(short), "flags that are missing")


def _unknown(command: str, line: list[str], flags: tuple[Any, ...]) -> Iterator[Case]:
    about = "unknown flags and words"
    named = [flag.name for flag in flags if len(flag.name) > 4]
    words = ["--nosuch", "--nosuch=1", "--\u65e5=1", f"--{'a' * 5000}=1", "--=5", "---n=1"]
    for word in (*words, f"--{named[0][:-1]}x=1", f"--{named[-1][1:]}=1", "--\x1b[2J=1"):
        yield Case(command, (*line, word), about)
    if not any(flag.positional for flag in flags):
        for word in ("word", "-", "a=b", "", "--", "\udcff"):
            yield Case(command, (word, *line) if word != "--" else (*line, "--", "x"), about)
    for value in ("/nonexistent", "/", "BINARY", LONG_NAME):
        yield Case(command, (*line, f"--flagfile={value}"), "files of flags")


def _about(name: str) -> str:
    if name in _READ | _WRITTEN | _FOLDERS:
        return "files and folders"
    return "names" if name in _CHOICES else "texts"


def _bad_values(flag: Any, folder: Path, command: str) -> tuple[str, ...]:
    if (flag.name, command) in (("split", "sweep"), ("usr_dir", "serve")):
        # Passed on to ut-eval; read with --output_dir alone.
        return ()
    if flag.name in _IDLE:
        return _INTEGERS[:2] if flag.kind == "integer" else ()
    if flag.kind == "integer":
        return _INTEGERS
    if flag.kind == "float":
        return _FLOATS
    if flag.kind == "boolean":
        return _BOOLEANS
    if flag.name in _CHOICES:
        return _NAMES
    inside = str(folder / "file" / "x")
    nowhere = ("~nosuchuser/x", LONG_NAME, inside, str(folder / "loop" / "x"))
    # ut-translate-all writes the file that ut-bleu reads.
    is_written = flag.name in _WRITTEN or (flag.name, command) in _ALSO_WRITTEN
    if flag.name in _READ and not is_written:
        return (*nowhere, str(folder / "missing"), "a\udce4b", "/dev/null/x")
    if is_written:
        return (*nowhere, "/proc/nosuch/x")
    if (flag.name, command) == ("output_dir", "sweep"):
        # --dry_run does not look whether the folder can be made.
        return nowhere[:2]
    if flag.name == "tmp_dir" or (
        flag.name == "data_dir" and command not in ("trainer", "datagen")
    ):
        # What is prepared already needs no folder to be prepared in.
        return nowhere[:1]
    return nowhere if flag.name in _FOLDERS else ()


def with_value(line: list[str], flag: str, value: str) -> tuple[str, ...] | list[str]:
    """A line with another value of a flag."""
    return [*(word for word in line if not word.startswith(f"--{flag}=")), f"--{flag}={value}"]
