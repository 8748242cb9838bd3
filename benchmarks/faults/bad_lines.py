"""Command lines that no command can answer, made of the flags and options that it declares."""

import importlib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tiny

_INTEGERS = ("abc", "1.5", "", "1e9", "9" * 5000, "\u00b2", "0x1g", "nan", "1,2", " ", "5 6", "inf")
_FLOATS = ("abc", "nan", "", "1,5", "-inf", "--", "1e")
_BOOLEANS = ("maybe", "2", "tru", "-1")
_NAMES = (
    *("nosuch", "a b", "../../etc/passwd", "a\nb", "\x1b[2Jred", "'; rm -rf /", "%s%n", "{}"),
    *("\u65e5\u672c", "a" * 5000, "-", "None", "\udce4"),
)
_UNKNOWN = (
    *("--nosuch", "--nosuch=1", "--\u65e5=1", f"--{'a' * 5000}=1", "--=5", "---n=1", "--\x1b[2J=1"),
    *("word", "-", "a=b", "", "\udcff"),
)
# Flags whose value is one of some names.
_CHOICES = {
    *("problem", "problems", "hparams_set", "hparams_sets", "checkpoint", "compare_checkpoint"),
    *("split", "test_problem", "format", "dtype", "quantize", "signatures", "bleu_variant"),
    *("tokenize", "tensorboard", "tracker", "cluster", "schedule", "exit_sweep", "grid"),
    *("seeds", "lengths", "steps", "checkpoints", "tables", "server"),
}
# Where a flag's file is read, and where it is written.
_READ = {
    *("decode_from_file", "score_file", "input_file", "translation", "reference", "source"),
    *("source_files", "config", "flagfile", "runs", "compare_with", "warm_start_from"),
    *("t2t_dir", "usr_dir"),
}
_WRITTEN = {"decode_to_file", "html", "output", "figures", "avg_dir", "export_dir"}
_ALSO_WRITTEN = {("json", "insights"), ("translation", "translate_all")}
# Accepted by tensor2tensor's users, and without a meaning here.
_IDLE = {"eval_steps", "num_shards", "max_cases", "license", "upload_to"}
# Passed on to ut-eval; read with --output_dir alone.
_PASSED_ON = {("split", "sweep"), ("usr_dir", "serve")}


class Case(NamedTuple):
    """One bad command line.

    Fields:
      command: its module in ut_tf.bin.
      argv: the words.
      about: what is bad, as the table of outcomes names it.
    """

    command: str
    argv: tuple[str, ...]
    about: str

    def __str__(self) -> str:
        words = " ".join(word if len(word) < 80 else f"{word[:70]}..." for word in self.argv)
        return f"{self.command} {words!r}"


def good_lines(folder: Path, server: str) -> dict[str, list[str]]:
    """A line of each command that it answers; what it writes is named new, new.html and so on.

    Args:
      folder: of the runs and files.
      server: address of what answers ut-query.
    """
    run, new = f"--output_dir={folder / 'run'}", folder / "new"
    data = [f"--data_dir={folder / 'data'}", f"--tmp_dir={folder / 'tmp'}"]
    names = [f"--problem={tiny.PROBLEM}", f"--hparams_set={tiny.HPARAMS_SET}"]
    given = [f"--hparams={tiny.SIZES}", f"--problem_args={tiny.PROBLEM_ARGS}"]
    lines = folder / "lines.txt"
    sweep = [f"--problems={tiny.PROBLEM}", f"--hparams_sets={tiny.HPARAMS_SET}", "--dry_run"]
    ende = f"--output_dir={folder / 'ende' / 'run'}"
    return {
        "trainer": [*names, *given, f"--output_dir={new}", *data, "--train_steps=1"],
        "datagen": [names[0], given[1], *data],
        "eval": [run],
        "avg_checkpoints": [run, f"--avg_dir={new}", "--n=2"],
        "show": [run, "--examples=1"],
        "decoder": [run, f"--decode_from_file={folder / 'questions.txt'}"],
        "bleu": [f"--translation={lines}", f"--reference={lines}"],
        "translate_all": [ende, f"--avg_dir={new}", "--n=2"],
        "exporter": [run, f"--export_dir={new}"],
        "report": [str(folder / "run")],
        "sweep": [f"--output_dir={new}", *sweep],
        "query": [f"--decode_from_file={lines}", f"--server={server}"],
        "serve": [f"--export_dir={folder / 'export'}", "--port=0"],
        "import_run": [
            "--from=tensor2tensor",
            f"--t2t_dir={folder / 't2t'}",
            f"--output_dir={new}",
            *data,
        ],
        "import_t2t": [f"--t2t_dir={folder / 't2t'}", f"--output_dir={new}", *data],
        "insights": [run, f"--html={new}.html", "--examples=1"],
    }


def bad_lines(folder: Path, server: str) -> Iterator[Case]:
    """Yields the cases of all commands."""
    for command, line in good_lines(folder, server).items():
        module = "trainer_flags" if command == "trainer" else command
        flags = importlib.import_module(f"ut_tf.bin.{module}").FLAGS
        yield from _unknown(command, line, flags)
        for flag in flags:
            yield from _of_flag(flag, command, line, folder)
        for flag, text in _options(command):
            bad = (*_without(line, flag), f"--{flag}={text}")
            yield Case(command, bad, f"options in --{flag}")


def _without(line: list[str], flag: str) -> tuple[str, ...]:
    return tuple(word for word in line if not word.startswith(f"--{flag}="))


def _unknown(command: str, line: list[str], flags: tuple[Any, ...]) -> Iterator[Case]:
    """Flags that no command has, and words without a flag."""
    takes_words = any(flag.positional for flag in flags)
    for word in _UNKNOWN:
        if word.startswith("--") or not takes_words:
            yield Case(command, (*line, word), "unknown flags and words")


def _of_flag(flag: Any, command: str, line: list[str], folder: Path) -> Iterator[Case]:
    """Bad values of a flag, and the flag without a value or left out."""
    about = f"{flag.kind} flags"
    for value in _bad_values(flag, folder, command):
        bad = value if flag.positional else f"--{flag.name}={value}"
        kept = () if flag.positional else _without(line, flag.name)
        yield Case(command, (*kept, bad), about)
    if flag.kind in ("string", "integer", "float") and not flag.alone:
        yield Case(command, (*line, f"--{flag.name}"), "flags without a value")
    if flag.required:
        kept = () if flag.positional else _without(line, flag.name)
        yield Case(command, kept, "flags that are missing")


def _bad_values(flag: Any, folder: Path, command: str) -> tuple[str, ...]:
    name = flag.name
    of_kind = {"integer": _INTEGERS, "float": _FLOATS, "boolean": _BOOLEANS}
    if name in _IDLE or (name, command) in _PASSED_ON:
        return _INTEGERS[:2] if flag.kind == "integer" else ()
    if flag.kind in of_kind:
        return of_kind[flag.kind]
    if name in _CHOICES:
        return _NAMES
    nowhere = ("~nosuchuser/x", "a" * 300, str(folder / "file" / "x"), str(folder / "loop" / "x"))
    if name in _WRITTEN or (name, command) in _ALSO_WRITTEN:
        return (*nowhere, "/dev/null/x")
    if name in _READ:
        return (*nowhere, str(folder / "missing"), "a\udce4b", "/dev/null/x")
    if name == "output_dir":
        # --dry_run of a sweep does not look whether the folder can be made.
        return nowhere[:2] if command == "sweep" else nowhere
    if name == "data_dir" and command in ("trainer", "datagen"):
        return nowhere
    # What is prepared already needs no folder to be prepared in.
    return nowhere[:1] if name in ("data_dir", "tmp_dir") else ()


def _options(command: str) -> Iterator[tuple[str, str]]:
    """Bad assignments in the flags that take options: each number as a word, and beyond bounds."""
    from ut_tf.config.fields import declaration, fields_of, types_of
    from ut_tf.factories import make_hparams
    from ut_tf.search.config import DecodeConfig

    hparams = make_hparams(tiny.HPARAMS_SET)
    classes = {
        "trainer": ("hparams", (type(hparams.network), type(hparams.training))),
        "decoder": ("decode_hparams", (DecodeConfig,)),
    }
    flag, declared = classes.get(command, ("", ()))
    for config_class in declared:
        for name, annotation in types_of(config_class).items():
            if {int, float} & {annotation, *typing.get_args(annotation)}:
                yield from ((flag, f"{name}={bad}") for bad in ("abc", "", "nan"))
            bounds = declaration(fields_of(config_class)[name])
            if bounds.at_least is not None:
                yield flag, f"{name}={bounds.at_least - 1}"
            if bounds.below is not None:
                yield flag, f"{name}={bounds.below}"
    if flag:
        yield from ((flag, bad) for bad in ("nosuch=1", "=", "=1", "x" * 5000, "[" * 5000))
