"""Commands refuse unknown words and bad values of their flags in one line, and change nothing."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bin.tiny_runs import stories_run
from ut_tf.bin import entry
from ut_tf.bin.frame.flags import Flag
from ut_tf.config.fields import declaration, fields_of, types_of
from ut_tf.factories import make_hparams
from ut_tf.search.config import DecodeConfig

COMMANDS = tuple(
    name for name, value in vars(entry).items() if getattr(value, "__name__", "") == "run"
)
UNKNOWN = ("--nosuch", "--\u65e5=1", f"--{'a' * 5000}=1", "--=5", "---n=1", "--\x1b[2J=1", "\udcff")
BAD = {
    "integer": ("abc", "1.5", "", "1e9", "9" * 5000, "\u00b2", "nan", "1,2", "inf"),
    "float": ("abc", "nan", "", "1,5", "-inf", "--", "1e"),
    "boolean": ("maybe", "2", "tru", "-1"),
}


def refused(
    capsys: pytest.CaptureFixture[str], command: str, argv: list[str], statuses: tuple[int, ...]
) -> None:
    status = importlib.import_module(f"ut_tf.bin.{command}").main(argv)
    output, errors = capsys.readouterr()
    *_, last = lines = errors.splitlines()
    assert status in statuses and not output, argv
    assert "error: " in last and [line for line in lines if "error: " in line] == [last], argv


def flags_of(command: str) -> tuple[Flag, ...]:
    module = "trainer_flags" if command == "trainer" else command
    flags: tuple[Flag, ...] = importlib.import_module(f"ut_tf.bin.{module}").FLAGS
    return flags


def bad_words(command: str) -> Iterator[str]:
    flags = flags_of(command)
    takes_words = any(flag.positional for flag in flags)
    yield from (word for word in UNKNOWN if word.startswith("--") or not takes_words)
    for flag in flags:
        yield from (f"--{flag.name}={value}" for value in BAD.get(flag.kind, ()))
        if flag.kind in ("string", "integer", "float") and not flag.alone:
            yield f"--{flag.name}"


@pytest.mark.parametrize("command", COMMANDS)
def test_bad_words_are_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    required = [
        "x" if flag.positional else f"--{flag.name}=x"
        for flag in flags_of(command)
        if flag.required
    ]
    for word in bad_words(command):
        refused(capsys, command, [*required, word], (1, 2))


def test_all_commands_are_tried() -> None:
    assert len(COMMANDS) == 15


def bad_options(*config_classes: type) -> Iterator[str]:
    """Each number as a word, and beyond its bounds."""
    for config_class in config_classes:
        for name, annotation in types_of(config_class).items():
            if {int, float} & {annotation, *typing.get_args(annotation)}:
                yield from (f"{name}={bad}" for bad in ("abc", "", "nan"))
            bounds = declaration(fields_of(config_class)[name])
            if bounds.at_least is not None:
                yield f"{name}={bounds.at_least - 1}"
            if bounds.below is not None:
                yield f"{name}={bounds.below}"
    yield from ("nosuch=1", "=", "=1", "x" * 5000, "[" * 5000)


@pytest.mark.slow
def test_bad_options_are_refused_and_leave_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stories_run(tmp_path / "run")
    (tmp_path / "questions.txt").write_text("1 Mary moved to the kitchen.\n2 Where is Mary?\n")
    hparams = make_hparams("ut_babi")
    place = f"--output_dir={run.output_dir}"
    lines = {
        "trainer": ([f"--problem={run.problem}", "--hparams_set=ut_babi", place], "hparams"),
        "decoder": ([place, f"--decode_from_file={tmp_path / 'questions.txt'}"], "decode_hparams"),
    }
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for bad in bad_options(type(hparams.network), type(hparams.training)):
        refused(capsys, "trainer", [*lines["trainer"][0], f"--hparams={bad}"], (1, 2))
    for bad in bad_options(DecodeConfig):
        refused(capsys, "decoder", [*lines["decoder"][0], f"--decode_hparams={bad}"], (1, 2))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
