"""A file in the place of flags: YAML or JSON, or the config.json of a run.

::

    problem: babi_sim
    hparams_set: ut_act_babi
    hparams: {train_steps: 1500, dropout: 0.1}
    output_dir: runs/mine

Its names are those of the flags. ``hparams`` and ``problem_args`` may be mappings; what the command
line gives of them replaces single values.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags as absl_flags

from ut_tf.bin.frame.flags import Flag, FlagError, hyperparameters, parse
from ut_tf.bin.frame.shared_flags import FILE_FLAGS
from ut_tf.config.overrides import parse_assignments
from ut_tf.errors import did_you_mean
from ut_tf.paths import expanded
from ut_tf.storage.json_lines import unique_keys
from ut_tf.storage.yaml_text import unique_yaml

_FILES = frozenset(flag.name for flag in FILE_FLAGS)
_MOST_LEVELS = 50
_ASSIGNMENTS = ("hparams", "problem_args")
# Of a run's config.json, what says how it was trained, by the name of the flag.
_OF_RUN = {
    "problem": "problem",
    "problem_args": "problem_args",
    "hparams_set": "hparams_set",
    "overrides": "hparams",
    "model": "model",
    "seed": "random_seed",
    "data_dir": "data_dir",
    "tmp_dir": "tmp_dir",
}


def parse_with_config(
    command: str, description: str, flags: Sequence[Flag], argv: Sequence[str]
) -> absl_flags.FlagValues:
    """The values of the flags in `argv` and in the file that its --config names; arguments and
    errors as of ``flags.parse``.

    Raises:
      FlagError: also where the file cannot be read, or holds what no flag of the command takes.
    """
    values = parse(command, description, flags, argv)
    if not values.config:
        return values
    every = _with_config(values, flags, argv)
    return parse(command, description, flags, every, are_typed=False)


def _with_config(
    values: absl_flags.FlagValues, flags: Sequence[Flag], argv: Sequence[str]
) -> list[str]:
    """A command line's words, `values` being the flags, with those that its --config stands for."""
    path = expanded(values.config)
    read = _read(path)
    _check_code(read, values, path)
    given = _of_run(read)
    by_name = {name: flag for flag in flags for name in (flag.name, *flag.aliases)}
    for name in given:
        _check(name, by_name, path)
    named = {by_name[name].name: value for name, value in given.items() if value is not None}
    arguments = named.get("problem_args")
    if isinstance(arguments, Mapping):
        # Names of files have flags of their own, in which they may have any letters.
        files = {name: value for name, value in arguments.items() if name in _FILES}
        named |= files
        named["problem_args"] = {
            name: value for name, value in arguments.items() if name not in files
        }
    plain = [
        f"--{name}={_text(value, ',', f'--config={path}, {name}')}"
        for name, value in named.items()
        if name not in _ASSIGNMENTS and not values[name].present
    ]
    joined = [
        f"--{name}={_joined(named[name], values[name].value, path, name)}"
        for name in _ASSIGNMENTS
        if name in named
    ]
    return [*plain, *argv, *joined]


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        if _depth(text) > _MOST_LEVELS:
            # PyYAML's time grows with the square of the levels.
            raise ValueError(f"it has more than {_MOST_LEVELS} levels of brackets")
        # YAML takes some JSON numbers, such as 1e-05, for texts.
        is_json = path.suffix == ".json"
        values = json.loads(text, object_pairs_hook=unique_keys) if is_json else unique_yaml(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise FlagError(
            f"--config={path} cannot be read ({reason}): expected YAML or JSON with values of flags"
            " by name."
        ) from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise FlagError(
            f"--config={path} holds no values by name: expected lines such as problem: babi_sim."
        )
    return values


def _depth(text: str) -> int:
    """The levels of brackets in a text."""
    changes = ((character in "[{") - (character in "]}") for character in text)
    return max(itertools.accumulate(changes), default=0)


def _of_run(values: dict[str, Any]) -> dict[str, Any]:
    """The values by the names of flags, where they are a run's config.json."""
    if "format_version" not in values:
        return values
    return {flag: values[name] for name, flag in _OF_RUN.items() if values.get(name)}


def _check_code(read: dict[str, Any], values: absl_flags.FlagValues, path: Path) -> None:
    """Raises FlagError where a run's config.json names code: the command line alone may do so."""
    usr_dir = read.get("usr_dir") if "format_version" in read else None
    if usr_dir and "usr_dir" in values and not values.usr_dir:
        raise FlagError(
            f"--config={path}: the run was made with code of your own, which is not executed"
            f" unasked: add --usr_dir={usr_dir}, if you trust what lies there."
        )


def _check(name: str, by_name: Mapping[str, Flag], path: Path) -> None:
    if name in by_name and name not in ("config", "help"):
        return
    near = did_you_mean(name, by_name) or "."
    if name in hyperparameters():
        near = f": it is a hyperparameter; write it below hparams: {{{name}: VALUE}}."
    raise FlagError(f"--config={path}: unknown name {name!r}{near}")


def _joined(value: Any, given: str | None, path: Path, name: str) -> str:
    """Assignments of the file as one text, those of the command line in their place."""
    own = _assignments(value, path, name)
    replaced, mistakes = parse_assignments(given or "")
    if mistakes:
        return given or ""
    return ",".join(f"{key}={text}" for key, text in {**own, **replaced}.items())


def _assignments(value: Any, path: Path, name: str) -> dict[str, Any]:
    if isinstance(value, Mapping):
        where = f"--config={path}, {name}"
        return {str(key): _text(part, "+", f"{where}, {key}") for key, part in value.items()}
    values, mistakes = parse_assignments(str(value))
    if mistakes:
        raise FlagError(f"--config={path}, {name}: {'; '.join(mistakes)}.")
    return values


def _text(value: Any, separator: str, where: str) -> str:
    """A value as the command line has it; `where` it stands, for messages."""
    if isinstance(value, Mapping):
        raise FlagError(f"{where}: {value!r} is no value: expected a text or a number.")
    if isinstance(value, list | tuple):
        return separator.join(_text(part, separator, where) for part in value)
    return json.dumps(value) if isinstance(value, bool) or value is None else str(value)
