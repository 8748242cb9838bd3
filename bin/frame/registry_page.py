"""The page of registered names: models, sets that train on a CPU, other sets, problems, and the
parts of models, searches and evaluations. Of a problem named in full its arguments, of a set its
hyperparameters, of a hyperparameter what it is.
"""

import textwrap
from collections.abc import Iterator, Sequence

from ut_tf import registry
from ut_tf.bin.frame.flags import FlagError
from ut_tf.bin.frame.hyperparameter_help import hyperparameter_help
from ut_tf.config.fields import default_of
from ut_tf.config.hparams import HParams
from ut_tf.config.part_options import declared, values_of
from ut_tf.data.argument_help import argument_help
from ut_tf.data.arguments import as_written
from ut_tf.errors import UserError, did_you_mean
from ut_tf.ordering import natural_order
from ut_tf.registry import Group, Registry

ALL = "all"
_SECTIONS = (registry.models, registry.hparams_sets, registry.problems)
_KINDS = {"models": registry.models, "sets": registry.hparams_sets, "problems": registry.problems}
# The parts' registries, each by the option that chooses one.
_PARTS = {
    "recurrence": (registry.cells, "--hparams=recurrence=NAME"),
    "transition": (registry.transitions, "--hparams=transition=NAME"),
    "halting": (registry.halting_forms, "--hparams=halting=NAME"),
    "exit": (registry.exit_rules, "--hparams=eval_exit=NAME"),
    "train_depth": (registry.train_depths, "--hparams=train_depth=NAME"),
    "input_injection": (registry.input_injections, "--hparams=input_injection=NAME"),
    "initial_state": (registry.initial_states, "--hparams=initial_state=NAME"),
    "supervision": (registry.supervisions, "--hparams=supervision=NAME"),
    "position": (registry.positions, "--hparams=position=NAME"),
    "strategy": (registry.strategies, "--decode_hparams=strategy=NAME"),
    "method": (registry.evaluation_methods, "chosen by a problem's evaluation sets"),
}
# A group of more names than these is one row; one of entries that only share a folder, if it has
# more than these.
_MOST_ROWS, _MOST_OF_A_FOLDER = 4, 30
_WIDTH = 100


def registry_page(pattern: str = ALL) -> str:
    """The page; `pattern` is "all", "models", "sets" or "problems", a group, or a part of names,
    those of hyperparameters too.

    Raises:
      FlagError: nothing is called so.
    """
    if pattern == ALL:
        sections = [_section(_title(kind), _rows(kind)) for kind in _SECTIONS]
        return "\n\n".join([*sections, _section("Parts", _parts())])
    if pattern in _KINDS:
        return _section(_title(_KINDS[pattern]), _rows(_KINDS[pattern]))
    sections = [*_named_in_full(pattern), _section("Sets to begin with", _first_sets(pattern))]
    sections += [_section(*_others(kind, pattern)) for kind in _SECTIONS]
    sections += [_part_section(option, pattern) for option in _PARTS]
    fields = sorted(hyperparameter_help())
    groups = {group.name for kind in _SECTIONS for group in _groups(kind)}
    if pattern not in groups:
        sections += _field_sections(pattern, fields)
    shown = [section for section in sections if section]
    if not shown:
        known = {name for kind in _all_kinds() for name in kind.names()} | {*_PARTS, *_KINDS}
        known |= groups | {name for name, _ in fields}
        raise FlagError(
            f"--registry_help={pattern} matches no name and no"
            f" group{did_you_mean(pattern, known - {'none'}) or '.'}"
        )
    return "\n\n".join(shown)


def _named_in_full(pattern: str) -> list[str]:
    """The sections of the one problem, set or model that is called so."""
    titles = [
        _section(pattern, [(f"{kind.kind}:", kind.describe(pattern))])
        for kind in _SECTIONS
        if pattern in kind.names()
    ]
    return [*titles, _arguments(pattern), _hyperparameters(pattern)]


def _hyperparameters(pattern: str) -> str:
    """The hyperparameters of the one set that is called so, as far as it sets them."""
    if pattern not in registry.hparams_sets.names():
        return ""
    try:
        hparams = registry.hparams_sets.get(pattern)()
    except UserError as error:
        return f"Hyperparameters of {pattern}:\n  not known: {error}"
    if not isinstance(hparams, HParams):
        return ""
    rows = [
        (name, as_written(values_of(config)[name]))
        for config in (hparams.network, hparams.training)
        for name, field in declared(config).items()
        if values_of(config)[name] != default_of(field)
    ]
    title = f"Hyperparameters of {pattern} (others: defaults of {hparams.model})"
    return _section(title, rows or [("none", "all are defaults")])


def _arguments(pattern: str) -> str:
    """The arguments of the one problem that is called so."""
    if pattern not in registry.problems.names():
        return ""
    title = f"Arguments of {pattern} (--problem_args=NAME=VALUE,...)"
    try:
        rows = argument_help(registry.problems.get(pattern))
    except UserError as error:  # Names and sets are known without what the problem needs.
        return f"{title}:\n  not known: {error}"
    return _section(title, list(rows.items()) or [("none", "")])


def _first_sets(pattern: str) -> list[tuple[str, str]]:
    """The sets for the problems that match, or the one of that name, without sets that match."""
    kind = registry.hparams_sets
    shown = {name for name, _ in _matching(kind, pattern)}
    problems = [name for name, _ in _matching(registry.problems, pattern)]
    if pattern in registry.problems.names():
        problems = [pattern]
    names = dict.fromkeys(
        name for problem in problems for name in registry.sets_to_begin_with(problem)
    )
    return [(name, kind.describe(name)) for name in names if name not in shown]


def _part_section(option: str, pattern: str) -> str:
    kind, choice = _PARTS[option]
    # An empty pattern is part of every name.
    rows = [
        (name, "; ".join([kind.describe(name), *_options(kind, choice, name)]))
        for name, _ in _matching(kind, "" if pattern == option else pattern)
    ]
    return _section(f"{_title(kind)} ({choice})", rows)


def _options(kind: Registry, choice: str, name: str) -> list[str]:
    """The options of a part, which a flag's `choice`, "--hparams=FIELD=NAME", takes."""
    field = choice.removesuffix("=NAME").rpartition("=")[2]
    names = [f"{field}.{option}" for option in kind.options(name)]
    return [f"options: {', '.join(names)}"] if names else []


def _field_sections(pattern: str, fields: Sequence[tuple[str, str]]) -> list[str]:
    """The one hyperparameter that is called so, and those with words that begin so; an option of a
    part, FIELD.OPTION, is one too.
    """
    own = [row for row in fields if row[0] == pattern]
    words = {name: f"_{name}".replace(".", "_") for name, _ in fields}
    asked = f"_{pattern}".replace(".", "_")
    others = [row for row in fields if asked in words[row[0]] and row not in own]
    title = "Other hyperparameters" if own else "Hyperparameters"
    return [
        _section("Hyperparameter (--hparams=NAME=VALUE,...)", own),
        _section(f"{title} (--hparams=NAME=VALUE,...)", others),
    ]


def _all_kinds() -> list[Registry]:
    return [*_SECTIONS, *(kind for kind, _ in _PARTS.values())]


def _title(kind: Registry) -> str:
    return f"{kind.kinds[:1].upper()}{kind.kinds[1:]}"


def _parts() -> list[tuple[str, str]]:
    """A row with all names for each kind of part."""
    return [
        (option, f"{', '.join(kind.names())}; described: --registry_help={option}")
        for option, (kind, _) in _PARTS.items()
    ]


def _section(title: str, rows: Sequence[tuple[str, str]]) -> str:
    if not rows:
        return ""
    width = max(len(name) for name, _ in rows)
    lines = [f"{title}:"]
    for name, text in rows:
        room = max(_WIDTH - width - 4, 40)
        wrapped = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
        lines.append(f"  {name:<{width}}  {wrapped[0]}".rstrip())
        lines += [f"  {'':<{width}}  {line}" for line in wrapped[1:]]
    return "\n".join(lines)


def _rows(kind: Registry) -> list[tuple[str, str]]:
    """A row for each large group, and one for each other name."""
    rows = []
    for group in _groups(kind):
        if group.name and len(group.names) > _MOST_ROWS:
            what = f"{group.description}; such as" if group.description else "such as"
            text = f"{what} {group.names[0]}; all: --registry_help={group.name}"
            rows.append((f"{group.name} ({len(group.names)} names)", text))
        else:
            rows += [(name, kind.describe(name)) for name in group.names]
    if kind is registry.hparams_sets:
        # Most readers have no more than a CPU at first.
        rows.sort(key=lambda row: "CPU" not in row[1])
    return rows


def _matching(kind: Registry, pattern: str) -> list[tuple[str, str]]:
    named = [group.names for group in _groups(kind) if group.name == pattern]
    names = named[0] if named else [name for name in kind.names() if pattern in name]
    return [(name, kind.describe(name)) for name in sorted(names, key=natural_order)]


def _others(kind: Registry, pattern: str) -> tuple[str, list[tuple[str, str]]]:
    """A title and the rows that match, without the name that has sections of its own."""
    rows = _matching(kind, pattern)
    others = [row for row in rows if row[0] != pattern]
    return (_title(kind) if others == rows else f"Other {kind.kinds}"), others


def _groups(kind: Registry) -> Iterator[Group]:
    """The registry's groups; names of a large folder are one, too."""
    for group in kind.groups():
        if group.name:
            yield group
            continue
        folders: dict[str, list[str]] = {}
        for name in group.names:
            folders.setdefault(kind.group(name), []).append(name)
        large = {
            folder: names for folder, names in folders.items() if len(names) > _MOST_OF_A_FOLDER
        }
        yield Group("", "", tuple(name for name in group.names if kind.group(name) not in large))
        for folder, names in large.items():
            yield Group(folder, "", tuple(names))
