"""The names of all problems, from ``catalogue.yaml``; a name imports nothing until it is looked up.

Of each class the file holds the names of its arguments, so that a misspelt one is refused before
TensorFlow is loaded, and those that name files (``Problem.file_arguments``). A test compares both
with the class.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ut_tf.loading import read_yaml
from ut_tf.registry import Entry

_TASKS = range(1, 21)


def _rows(problems: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each problem's name and row; those of ``each_task`` once for each of bAbI's tasks."""
    for group in problems:
        repeated = group.get("each_task")
        if repeated is None:
            yield from group.items()
            continue
        for task in _TASKS:
            for name, row in repeated.items():
                about, arguments = row["about"].format(task=task), dict(row["arguments"])
                yield (
                    name.format(task=task),
                    {**row, "about": about, "arguments": arguments | {"tasks": (task,)}},
                )


def _entry(name: str, row: Mapping[str, Any], classes: Mapping[str, Any]) -> Entry:
    of = classes[row["of"]]
    return Entry(
        f"ut_tf.problems.{of['target']}",
        row["about"],
        {**row.get("arguments", {}), "name": name},
        group=of["group"],
        file_arguments=of.get("files", {}),
        argument_names=tuple(of["arguments"].split()),
    )


_CATALOGUE = read_yaml(Path(__file__).with_suffix(".yaml"))
GROUPS: Mapping[str, str] = _CATALOGUE["groups"]
PROBLEMS: Mapping[str, Entry] = {
    name: _entry(name, row, _CATALOGUE["classes"]) for name, row in _rows(_CATALOGUE["problems"])
}
