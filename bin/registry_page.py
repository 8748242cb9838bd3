"""The page of registered names: models and sets first, problems by their groups."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from ut_tf import registry
from ut_tf.bin.flags import FlagError
from ut_tf.errors import did_you_mean
from ut_tf.registry import Registry

ALL = "all"
_SECTIONS = (registry.models, registry.hparams_sets, registry.problems)
# A group of more names than these is one row.
_MOST_ROWS = 20
_WIDTH = 100


def registry_page(pattern: str = ALL) -> str:
    """The page; `pattern` is "all", a group, or a part of names.

    Raises:
      FlagError: nothing is called so.
    """
    sections = [
        _section(kind, _rows(kind) if pattern == ALL else _matching(kind, pattern))
        for kind in _SECTIONS
    ]
    shown = [section for section in sections if section]
    if not shown:
        known = {name for kind in _SECTIONS for name in [*kind.names(), *_groups(kind)]}
        raise FlagError(
            f"--registry_help={pattern} matches no name and no"
            f" group{did_you_mean(pattern, known) or '.'}"
        )
    return "\n\n".join(shown)


def _section(kind: Registry, rows: Sequence[tuple[str, str]]) -> str:
    if not rows:
        return ""
    width = max(len(name) for name, _ in rows)
    lines = [f"{kind.kinds[:1].upper()}{kind.kinds[1:]}:"]
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(_WIDTH - width - 4, 40)) or [""]
        lines.append(f"  {name:<{width}}  {wrapped[0]}".rstrip())
        lines += [f"  {'':<{width}}  {line}" for line in wrapped[1:]]
    return "\n".join(lines)


def _rows(kind: Registry) -> list[tuple[str, str]]:
    """The names of small groups, each with its description, and a row for each large group."""
    rows = []
    for group, names in _groups(kind).items():
        if len(names) > _MOST_ROWS:
            some = ", ".join(names[:3])
            rows.append(
                (f"{group} (group)", f"{len(names)} names, {some} ...: --registry_help={group}")
            )
        else:
            rows += [(name, kind.describe(name)) for name in names]
    return sorted(rows, key=lambda row: _place(kind, *row))


def _matching(kind: Registry, pattern: str) -> list[tuple[str, str]]:
    groups = _groups(kind)
    names = groups.get(pattern) or [
        name for name in sorted(kind.names(), key=_natural) if pattern in name
    ]
    return [(name, kind.describe(name)) for name in names]


def _groups(kind: Registry) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in sorted(kind.names(), key=_natural):
        groups.setdefault(kind.group(name), []).append(name)
    return groups


def _place(kind: Registry, name: str, description: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Sets that train on a CPU come first, large groups last."""
    large = name.endswith(" (group)")
    on_cpu = kind is registry.hparams_sets and "CPU" in description
    return (2 if large else 0 if on_cpu else 1), _natural(name)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sorts task2 before task10."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
    ]
