"""What the version number promises to keep, read from the code.

``promised.txt`` lists it as it was at the version in its first line. After a release it is written
anew: ``python -m tests.promise.public``.
"""

import inspect
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import keras

import ut_tf
from ut_tf import layers, metrics, registry
from ut_tf.bin.frame.declarations import declaration
from ut_tf.config.families import config_class
from ut_tf.config.fields import default_of, fields_of
from ut_tf.config.training import TrainingConfig
from ut_tf.keras_classes import register_keras_classes
from ut_tf.version import __version__

STORED = Path(__file__).with_name("promised.txt")
_COMMANDS = sorted(path.stem for path in (Path(ut_tf.__file__).parents[1] / "bin/flags").glob("*"))
_COMMANDS.remove("shared")
_KINDS = {
    kind: value for kind, value in vars(registry).items() if isinstance(value, registry.Registry)
}


def public() -> list[str]:
    """Lists the names with their signatures, a line each, sorted."""
    found = {*_python(), *_flags(), *_hyperparameters(), *_registered()}
    return sorted(found)


def stored() -> tuple[str, list[str]]:
    """Reads the version of ``promised.txt`` and its lines."""
    version, *lines = STORED.read_text(encoding="utf-8").splitlines()
    return version, lines


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, such as (1, 2, 3)."""
    return tuple(map(int, version.split(".")))


def needed_version(version: str, before: Collection[str], now: Collection[str]) -> tuple[int, ...]:
    """The least version that a change needs: a major one where something is gone or asks for more,
    a minor one where something came.
    """
    major, minor, patch = numbers(version)
    gone = {line for line in set(before) - set(now) if not line.startswith("required ")}
    came = set(now) - set(before)
    if gone or any(_asks_for_more(line, before) for line in came):
        return (major + 1, 0, 0)
    return (major, minor + 1, 0) if came else (major, minor, patch)


def _asks_for_more(line: str, before: Collection[str]) -> bool:
    """Whether a line is an argument that a function of old needs now."""
    kind, rest = line.split(" ", 1)
    return kind == "required" and f"python {rest.split('(')[0]}" in before


def _python() -> Iterator[str]:
    for module in (ut_tf, layers, metrics):
        for name in module.__all__:
            yield from _named(f"{module.__name__}.{name}", getattr(module, name))
    functions = {name: value for name, value in vars(registry).items() if callable(value)}
    for name, value in functions.items():
        if value.__module__ == registry.__name__ and not name.startswith("_"):
            yield from _named(f"ut_tf.registry.{name}", value)


def _named(place: str, value: Any) -> Iterator[str]:
    yield f"python {place}"
    if not callable(value):
        return
    yield from _signature(place, value)
    if inspect.isclass(value):
        ours = [base for base in value.__mro__ if base.__module__.startswith("ut_tf")]
        for name in {name for base in ours for name in vars(base) if not name.startswith("_")}:
            yield f"python {place}.{name}"
            if callable(method := getattr(value, name)):
                yield from _signature(f"{place}.{name}", method)


def _signature(place: str, value: Any) -> Iterator[str]:
    """A line for each argument, with its number where it can be given by position, and another one
    where it must be given.
    """
    for number, (name, parameter) in enumerate(inspect.signature(value).parameters.items()):
        at = f" {number}" if parameter.kind < parameter.VAR_POSITIONAL else ""
        yield f"parameter {place}({name}){at}"
        if parameter.default is parameter.empty and parameter.kind <= parameter.KEYWORD_ONLY:
            yield f"required {place}({name})"


def _flags() -> Iterator[str]:
    for module in _COMMANDS:
        declared = declaration(module)
        for flag in declared.flags:
            for name in (flag.name, *flag.aliases):
                yield f"flag {declared.command} --{name}"


def _hyperparameters() -> Iterator[str]:
    classes = {config_class(name) for name in _built_in(registry.models)} | {TrainingConfig}
    for owner in classes:
        for name, field in fields_of(owner).items():
            yield f"hyperparameter {owner.__name__}.{name}={default_of(field)!r}"


def _built_in(names: registry.Registry) -> list[str]:
    """The names that come with ut-tf: other tests register some of their own."""
    return [name for name in names.names() if not names.is_own(name)]


def _registered() -> Iterator[str]:
    for kind, names in _KINDS.items():
        yield from (f"registered {kind} {name}" for name in _built_in(names))
    register_keras_classes()
    for name in keras.saving.get_custom_objects():
        if name.startswith("ut_tf"):
            yield f"keras {name}"


if __name__ == "__main__":
    STORED.write_text("\n".join([__version__, *public()]) + "\n", encoding="utf-8")
