"""Flags of the commands: declared once here, parsed by absl, shown by a help page that lists only
what the command takes.

How it is used::

    values = parse("ut-eval", "Judges a run.", (OUTPUT_DIR, CHECKPOINT), argv)
    values.output_dir

How it works: every command fills its own ``absl.flags.FlagValues``, so that libraries that define
flags of their own (TensorFlow's among them) neither clash with ours nor appear in the help. Nothing
here imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from absl import flags as absl_flags

from ut_tf.config.network import NetworkConfig
from ut_tf.config.training import TrainingConfig
from ut_tf.data.arguments import absolute_paths
from ut_tf.errors import UserError, did_you_mean
from ut_tf.factories import parse_problem_args
from ut_tf.problems.catalogue import PROBLEMS


class FlagError(UserError):
    """A flag that does not exist or a value that it cannot hold; commands exit with status 2."""


class HelpAsked(Exception):
    """The user asked for help; the text is the help page."""


@dataclass(frozen=True)
class Flag:
    """One flag of a command.

    Args:
      name: what stands behind the two dashes.
      help: what it does, in one sentence.
      group: heading under which the help page lists it.
      kind: type of its value.
      default: value where it is not given; None: nothing.
      shown_default: what the help page says the default is, where the value does not say it.
      aliases: other names, as tensor2tensor has them.
      required: whether the command cannot do without it.
      positional: whether words without dashes, and all words after "--", are its values; for a flag
        of kind "words".
    """

    name: str
    help: str
    group: str
    kind: Literal["string", "integer", "float", "boolean", "words"] = "string"
    default: Any = None
    shown_default: str = ""
    aliases: tuple[str, ...] = ()
    required: bool = False
    positional: bool = False


_WHAT, _WHERE = "What", "Where"

PROBLEM = Flag("problem", "Registered name of the problem.", _WHAT, shown_default="needed")
PROBLEM_ARGS = Flag(
    "problem_args",
    "Arguments of the problem, name=value,name=value; several numbers are 1+2+3.",
    _WHAT,
    default="",
    shown_default="none",
)
HPARAMS_SET = Flag(
    "hparams_set", "Registered name of the hyperparameter set.", _WHAT, shown_default="needed"
)
HPARAMS = Flag(
    "hparams",
    "Overrides of the set, name=value,name=value.",
    _WHAT,
    default="",
    shown_default="none",
)
HPARAMS_IN_USE = Flag(
    "hparams",
    "Hyperparameters that may differ from training, eval_num_steps=8 for one: depth, memory and"
    " positions in use.",
    _WHAT,
    default="",
    shown_default="the run's",
)
MODEL = Flag("model", "Registered name of the model.", _WHAT, shown_default="the set's")
RANDOM_SEED = Flag(
    "random_seed",
    "Decides initial weights, dropout and the order of the data.",
    _WHAT,
    "integer",
    default=0,
)
USR_DIR = Flag(
    "usr_dir",
    "Folder of your own Python package with registrations.",
    _WHERE,
    shown_default="none",
    aliases=("t2t_usr_dir",),
)
DATA_DIR = Flag(
    "data_dir",
    "Where prepared data lies.",
    _WHERE,
    shown_default="$UT_TF_DATA_DIR or ~/.cache/ut_tf/data",
)
TMP_DIR = Flag(
    "tmp_dir",
    "Where downloaded archives lie; put them there yourself without a network.",
    _WHERE,
    shown_default="~/.cache/ut_tf/downloads",
)
OUTPUT_DIR = Flag(
    "output_dir", "The run directory.", _WHERE, shown_default="./runs/<problem>-<hparams_set>"
)
RUN_DIR = Flag(
    "output_dir",
    "The run directory, as ut-trainer wrote it.",
    _WHERE,
    required=True,
    aliases=("model_dir",),
)
RUN_DATA_DIR = Flag("data_dir", "Where prepared data lies.", _WHERE, shown_default="the run's")
RUN_TMP_DIR = Flag("tmp_dir", "Where downloaded archives lie.", _WHERE, shown_default="the run's")
RUN_USR_DIR = Flag(
    "usr_dir",
    "Folder of your own Python package with registrations.",
    _WHERE,
    shown_default="the run's",
    aliases=("t2t_usr_dir",),
)
_TEXT = "Parallel text (translate_files)"
FILE_FLAGS = (
    Flag(
        "source_files",
        "Training text, one sentence a line, plain or gzip; several with commas between.",
        _TEXT,
        shown_default="none",
    ),
    Flag(
        "target_files",
        "Its translations, line by line; without them the lines of the source files are source,"
        " tab, target.",
        _TEXT,
        shown_default="none",
    ),
    Flag(
        "dev_source_files",
        "Text for validation.",
        _TEXT,
        shown_default="training pairs are held out",
    ),
    Flag("dev_target_files", "Its translations.", _TEXT, shown_default="none"),
    Flag(
        "test_source_files",
        "Text that ut-eval judges.",
        _TEXT,
        shown_default="the text for validation",
    ),
    Flag("test_target_files", "Its translations.", _TEXT, shown_default="none"),
    Flag(
        "vocab_file",
        "A sentencepiece model to use instead of training one (any translate_ problem).",
        _TEXT,
        shown_default="none",
    ),
)
REGISTRY_HELP = Flag(
    "registry_help",
    "Lists all problems, models and hyperparameter sets.",
    "Help",
    "boolean",
    default=False,
)
HELP = Flag(
    "help",
    "Shows this page.",
    "Help",
    "boolean",
    default=False,
    aliases=("h", "helpfull", "helpshort"),
)

HYPERPARAMETERS = frozenset(
    field.name for config in (NetworkConfig, TrainingConfig) for field in dataclasses.fields(config)
)
_EXPECTED = {
    "integer": "a whole number",
    "float": "a number",
    "boolean": "true or false",
    "string": "a text",
    "words": "a text",
}


def parse(
    command: str, description: str, flags: Sequence[Flag], argv: Sequence[str]
) -> absl_flags.FlagValues:
    """Returns the values of the flags in `argv` (without the command's own name).

    Raises:
      HelpAsked: --help is among them.
      FlagError: an unknown flag (the near names are in the message), a value of the wrong type, or
        a required flag that is missing.
    """
    flags = (*flags, HELP)
    values = absl_flags.FlagValues()  # type: ignore[no-untyped-call]
    for flag in flags:
        _define(flag, values)
    positional = next((flag for flag in flags if flag.positional), None)
    # Otherwise the first word without dashes would end the flags.
    values.set_gnu_getopt(positional is not None)
    try:
        rest = values([command, *argv])[1:]
    except absl_flags.UnrecognizedFlagError as error:
        known = [name for flag in flags for name in (flag.name, *flag.aliases)]
        near = did_you_mean(error.flagname, known)
        if "hparams" in known and error.flagname in HYPERPARAMETERS:
            near = f": it is a hyperparameter; write --hparams={error.flagname}=VALUE."
        raise FlagError(
            f"unknown flag --{error.flagname}{near or '.'} All flags: {command} --help."
        ) from None
    except absl_flags.Error as error:
        raise FlagError(_wrong_value(str(error), command, flags)) from None
    if values.help:
        raise HelpAsked(help_page(description, flags))
    if positional is not None:
        values[positional.name].value = [*(values[positional.name].value or []), *rest]
    elif rest:
        raise FlagError(
            f"unexpected argument {rest[0]!r}: every value belongs to a flag, --name=value; see"
            f" {command} --help."
        )
    for flag in flags:
        if flag.required and not values[flag.name].value:
            if flag.positional:
                raise FlagError(
                    f"<{flag.name}> is missing: {_uncapitalised(flag.help)} See {command} --help."
                )
            raise FlagError(
                f"--{flag.name} is missing: {_uncapitalised(flag.help)} See {command} --help."
            )
    return values


def help_page(description: str, flags: Sequence[Flag]) -> str:
    """Returns the help page: the description, then the flags in their groups, each with its
    default.
    """
    groups: dict[str, list[Flag]] = {}
    for flag in flags:
        groups.setdefault(flag.group, []).append(flag)
    sections = [description.strip()]
    for heading, members in groups.items():
        sections.append(f"{heading}:\n" + "\n".join(_help_lines(flag) for flag in members))
    return "\n\n".join(sections)


def integers(text: str, flag: str) -> tuple[int, ...]:
    """Returns the positive whole numbers in "40,80,400".

    Raises:
      FlagError: a part is no positive whole number.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not part.isdecimal() or int(part) < 1:
            raise FlagError(
                f"--{flag}={text}: {part!r} is no whole number above 0; expected a list like"
                " 40,80,400."
            )
    return tuple(int(part) for part in parts)


def _define(flag: Flag, values: absl_flags.FlagValues) -> None:
    options: dict[str, Any] = {"flag_values": values, "module_name": "ut_tf"}
    if flag.kind == "integer":
        absl_flags.DEFINE_integer(flag.name, flag.default, flag.help, **options)
    elif flag.kind == "float":
        absl_flags.DEFINE_float(flag.name, flag.default, flag.help, **options)
    elif flag.kind == "boolean":
        absl_flags.DEFINE_boolean(flag.name, flag.default, flag.help, **options)
    elif flag.kind == "words":
        # Given several times, it has several values.
        absl_flags.DEFINE_multi_string(flag.name, flag.default, flag.help, **options)
    else:
        absl_flags.DEFINE_string(flag.name, flag.default, flag.help, **options)
    for alias in flag.aliases:
        absl_flags.DEFINE_alias(alias, flag.name, **options)


def _wrong_value(message: str, command: str, flags: Sequence[Flag]) -> str:
    """Returns absl's message on a bad value in our words."""
    found = re.match(r"flag --(\w+)=(.*?):", message)
    named = {name: flag for flag in flags for name in (flag.name, *flag.aliases)}
    if found and found[1] in named:
        return (
            f"--{found[1]}={found[2]}: expected {_EXPECTED[named[found[1]].kind]}; see {command}"
            " --help."
        )
    return f"{message.rstrip('.')}; see {command} --help."


def _help_lines(flag: Flag) -> str:
    head = (
        f"  <{flag.name}> ..."
        if flag.positional
        else f"  --{'[no]' if flag.kind == 'boolean' else ''}{flag.name}"
    )
    default = (
        "required" if flag.required else f"default: {flag.shown_default or _default_text(flag)}"
    )
    also = ", ".join(f"--{alias}" for alias in flag.aliases if flag is not HELP)
    text = (
        flag.help
        + (f" Also {also}." if also else "")
        + ("" if flag.group == "Help" else f" ({default})")
    )
    return (
        head
        + "\n"
        + textwrap.fill(text, width=100, initial_indent=" " * 6, subsequent_indent=" " * 6)
    )


def _default_text(flag: Flag) -> str:
    return str(flag.default).lower() if flag.kind == "boolean" else str(flag.default)


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


def problem_arguments(values: absl_flags.FlagValues, problems: Sequence[str]) -> dict[str, Any]:
    """Returns the arguments of the problems in --problem_args and FILE_FLAGS; the names of files as
    absolute paths.

    Raises:
      FlagError: an argument is given in both ways, a flag names no file, or one of the problems
        reads no such files, or cannot do without them.
    """
    arguments = parse_problem_args(values.problem_args)
    given = {
        flag.name: str(values[flag.name].value) for flag in FILE_FLAGS if values[flag.name].value
    }
    for name, text in given.items():
        if name in arguments:
            raise FlagError(f"--{name} and --problem_args both give {name}: leave one of them out.")
        paths = absolute_paths(text)
        if not paths or (name == "vocab_file" and len(paths) > 1):
            raise FlagError(
                f"--{name}={text}: expected the name of a file{' alone' if paths else ''}."
            )
        arguments[name] = paths if name.endswith("_files") else paths[0]
    for problem in (name for name in problems if name in PROBLEMS):
        _check_files(problem, given, arguments)
    return arguments


def _check_files(problem: str, given: Iterable[str], arguments: Mapping[str, Any]) -> None:
    """Raises FlagError where the flags for files and a problem of this project do not go together;
    one of the user's is asked later.
    """
    reads_files = problem.startswith("translate_files")
    taken = (
        {flag.name for flag in FILE_FLAGS}
        if reads_files
        else {"vocab_file"}
        if problem.startswith("translate_")
        else set()
    )
    for name in given:
        if name not in taken:
            raise FlagError(
                f"--{name}: problem {problem} takes no such files; leave the flag out, or give"
                " --problem=translate_files."
            )
    for part in ("dev_", "test_"):
        if f"{part}target_files" in arguments and f"{part}source_files" not in arguments:
            raise FlagError(
                f"--{part}source_files is missing: --{part}target_files holds the translations of"
                " its lines; give both."
            )
    if reads_files and "source_files" not in arguments:
        raise FlagError(
            f"--source_files is missing: problem {problem} reads your own files; give"
            " --source_files and --target_files, or --source_files alone for lines of source, tab,"
            " target."
        )


def command_line(argv: Sequence[str] | None) -> list[str]:
    """Returns `argv` or, where it is None, what the shell gave."""
    return list(sys.argv[1:] if argv is None else argv)
