"""The machinery of flags: declared as ``Flag``, parsed by absl, shown by a help page.

::

    values = parse("ut-eval", "Judges a run.", (OUTPUT_DIR, CHECKPOINT), argv)
    values.output_dir

Every command fills its own ``absl.flags.FlagValues``, so that libraries that define
flags of their own (TensorFlow's among them) neither clash with ours nor appear in the help. Nothing
here imports TensorFlow.
"""

import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from absl import flags as absl_flags

from ut_tf.bin.frame.terminal import width_of
from ut_tf.config import tensor2tensor
from ut_tf.config.families import every_field
from ut_tf.config.fields import fields_of
from ut_tf.config.training import TrainingConfig
from ut_tf.errors import UserError, did_you_mean
from ut_tf.version import __version__


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
      alone: value of a "string" where it is given without one; empty: it needs one.
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
    alone: str = ""


HELP = Flag(
    "help",
    "Shows this page.",
    "Help",
    "boolean",
    default=False,
    aliases=("h", "helpfull", "helpshort"),
)
VERSION = Flag("version", "Prints the version of ut-tf.", "Help", "boolean", default=False)
"""Of commands that have no flag of this name themselves."""

_MOST_DIGITS = 18
# Columns of a help page.
_WIDEST, _NARROWEST = 100, 40
# Assignments, which a second flag of the name would replace without a word.
_LISTS = ("hparams", "problem_args", "decode_hparams", "grid", "search")
_ONE_RUN = "output_dir"
_LONGEST_NAME = 100
_ARRAY = "start --task=INDEX --tasks=N in a job array of your own (docs/scaling.md)"
# Flags of a command that went, and what took their place.
_REMOVED = {
    "ut-sweep": {
        "halving": "--search with --pruner=halving ends runs that are behind by validation",
        "launcher": _ARRAY,
        "launcher_args": _ARRAY,
        "minutes": "runs begin in the order of the flags, and the first that ends tells the time",
    },
    "ut-trainer": {
        "plan_args": "--plan measures here, with the prepared data or --hparams=max_length",
        "tensorboard": "ut-show prints examples, ut-eval --figures draws ponder times",
        "tracker": "trackers read OUTPUT_DIR/tensorboard and metrics.jsonl (docs/training.md)",
    },
}
_EXPECTED = {
    "integer": "a whole number",
    "float": "a number",
    "boolean": "true or false",
    "string": "a text",
    "words": "a text",
}


def hyperparameters() -> frozenset[str]:
    """The names of the fields of every model and of training."""
    return frozenset({*every_field(), *fields_of(TrainingConfig)})


def parse(
    command: str,
    description: str,
    flags: Sequence[Flag],
    argv: Sequence[str],
    are_typed: bool = True,
) -> absl_flags.FlagValues:
    """The values of the flags in `argv` (without the command's own name); `are_typed`: by a user,
    none of them from a file.

    Raises:
      HelpAsked: --help or --version is among them.
      FlagError: an unknown flag (the near names are in the message), a value of the wrong type, or
        a required flag that is missing.
    """
    has_own = any(flag.name == VERSION.name for flag in flags)
    flags = (*flags, HELP) if has_own else (*flags, HELP, VERSION)
    values = absl_flags.FlagValues()  # type: ignore[no-untyped-call]
    for flag in flags:
        _define(flag, values)
    positional = next((flag for flag in flags if flag.positional), None)
    # Otherwise the first word without dashes would end the flags.
    values.set_gnu_getopt(positional is not None)
    given = _with_values(flags, argv)
    _refuse_long_names(given, command)
    try:
        words = values([command, *given])[1:]
    except absl_flags.UnrecognizedFlagError as error:
        known = [name for flag in flags for name in (flag.name, *flag.aliases)]
        near = did_you_mean(error.flagname, known, prefix="--")
        if "hparams" in known and error.flagname.partition(".")[0] in hyperparameters():
            near = f": it is a hyperparameter; write --hparams={error.flagname}=VALUE."
        elif instead := _REMOVED.get(command, {}).get(error.flagname):
            near = f": it is gone; {instead}."
        elif answer := tensor2tensor.flag_answer(error.flagname, command):
            near = f": {answer}"
        raise FlagError(
            f"unknown flag --{error.flagname}{near or '.'} All flags: {command} --help."
        ) from None
    except absl_flags.Error as error:
        raise FlagError(_wrong_value(str(error), command, flags)) from None
    except UnicodeDecodeError as error:
        raise FlagError(
            f"--flagfile is no text in UTF-8 ({error}); see {command} --help."
        ) from None
    except RecursionError:
        # absl compares an unknown name with its own letter by letter; here one in a file of flags.
        raise FlagError(
            "unknown flag with a very long name in the file of --flagfile. All flags:"
            f" {command} --help."
        ) from None
    for flag in flags:
        count = values[flag.name].present
        if flag.name == _ONE_RUN and count > 1:
            raise FlagError(
                f"--{flag.name} is given {count} times: {command} takes one run; leave all but one"
                " out."
            )
        if are_typed and flag.name in _LISTS and count > 1:
            raise FlagError(
                f"--{flag.name} is given {count} times, of which the last would stand alone: join"
                f" them with a comma, --{flag.name}=NAME=VALUE,NAME=VALUE."
            )
    if values.help:
        raise HelpAsked(help_page(description, flags, width_of(sys.stdout)))
    if not has_own and values.version:
        raise HelpAsked(f"{command} {__version__}")
    if positional is not None:
        values[positional.name].value = [*(values[positional.name].value or []), *words]
    elif words:
        raise FlagError(
            f"unexpected argument {words[0]!r}: every value belongs to a flag, --name=value; see"
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


def help_page(description: str, flags: Sequence[Flag], width: int = _WIDEST) -> str:
    """The help page: the description, then the flags in their groups, each with its
    default. In a terminal of fewer columns, paragraphs are wrapped anew; lines of examples, which
    begin with blanks, stay.
    """
    width = max(_NARROWEST, min(width, _WIDEST))
    groups: dict[str, list[Flag]] = {}
    for flag in flags:
        groups.setdefault(flag.group, []).append(flag)
    paragraphs = description.strip().split("\n\n")
    if width < _WIDEST:
        paragraphs = [
            part if part.startswith(" ") else textwrap.fill(part, width) for part in paragraphs
        ]
    sections = ["\n\n".join(paragraphs)]
    for heading, members in groups.items():
        sections.append(f"{heading}:\n" + "\n".join(_help_lines(flag, width) for flag in members))
    return "\n\n".join(sections)


def integers(text: str, flag: str) -> tuple[int, ...]:
    """The positive whole numbers in "40,80,400".

    Raises:
      FlagError: a part is no positive whole number.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not part.isdecimal() or len(part) > _MOST_DIGITS or int(part) < 1:
            raise FlagError(
                f"--{flag}={text}: {part!r} is no whole number above 0; expected a list like"
                " 40,80,400."
            )
    return tuple(int(part) for part in parts)


def _refuse_long_names(words: Sequence[str], command: str) -> None:
    """Raises FlagError for an unknown flag whose name is longer than any, which absl would compare
    with its own letter by letter.
    """
    for before, word in zip(("", *words), words, strict=False):
        name = word.partition("=")[0]
        if word == "--":
            return
        is_value = before.startswith("-") and "=" not in before
        if len(name) > _LONGEST_NAME and re.fullmatch(r"--?[\w.-]+", name) and not is_value:
            raise FlagError(f"unknown flag {name[:_LONGEST_NAME]} ... All flags: {command} --help.")


def _with_values(flags: Sequence[Flag], argv: Sequence[str]) -> list[str]:
    """The words with the values of flags that were given alone."""
    alone = {f"--{flag.name}": f"--{flag.name}={flag.alone}" for flag in flags if flag.alone}
    return [alone.get(word, word) for word in argv]


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
    """Absl's message on a bad value in our words."""
    match = re.match(r"flag --(\w+)=(.*?):", message)
    named = {name: flag for flag in flags for name in (flag.name, *flag.aliases)}
    if match and match[1] in named:
        return (
            f"--{match[1]}={match[2]}: expected {_EXPECTED[named[match[1]].kind]}; see {command}"
            " --help."
        )
    return f"{message.rstrip('.')}; see {command} --help."


def _help_lines(flag: Flag, width: int) -> str:
    head = f"  <{flag.name}> ..."
    if not flag.positional:
        head = f"  --{'[no]' if _has_opposite(flag) else ''}{flag.name}"
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
        head + "\n" + textwrap.fill(text, width, initial_indent=" " * 6, subsequent_indent=" " * 6)
    )


def _default_text(flag: Flag) -> str:
    return str(flag.default).lower() if flag.kind == "boolean" else str(flag.default)


def _has_opposite(flag: Flag) -> bool:
    """Whether the help page shows --noNAME, which a flag that says no need not have."""
    return flag.kind == "boolean" and not flag.name.startswith("no_")


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]
