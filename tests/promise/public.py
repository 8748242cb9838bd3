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
            value = getattr(module, name)
            yield f"python {module.__name__}.{name}"
            if callable(value):
                yield from _signature(f"{module.__name__}.{name}", value)
                methods = vars(value).items() if inspect.isclass(value) else ()
                for method, function in methods:
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"python {module.__name__}.{name}.{method}"
                        yield from _signature(f"{module.__name__}.{name}.{method}", function)


def _signature(place: str, value: Any) -> Iterator[str]:
    parameters = inspect.signature(value).parameters.items()
    for name, parameter in ((name, one) for name, one in parameters if name != "self"):
        yield f"parameter {place}({name})"
        if parameter.default is parameter.empty and parameter.kind <= parameter.KEYWORD_ONLY:
            yield f"required {place}({name})"


def _flags() -> Iterator[str]:
    for module in _COMMANDS:
        declared = declaration(module)
        for flag in declared.flags:
            for name in (flag.name, *flag.aliases):
                yield f"flag {declared.command} --{name}"


def _hyperparameters() -> Iterator[str]:
    classes = {config_class(name) for name in registry.models.names()} | {TrainingConfig}
    for owner in classes:
        for name, field in fields_of(owner).items():
            yield f"hyperparameter {owner.__name__}.{name}={default_of(field)!r}"


def _registered() -> Iterator[str]:
    for kind, names in _KINDS.items():
        yield from (f"registered {kind} {name}" for name in names.names())
    register_keras_classes()
    for name in keras.saving.get_custom_objects():
        if name.startswith("ut_tf"):
            yield f"keras {name}"


if __name__ == "__main__":
    STORED.write_text("\n".join([__version__, *public()]) + "\n", encoding="utf-8")
