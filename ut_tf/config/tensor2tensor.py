"""tensor2tensor's names of flags and hyperparameters, and what each of them is here: the answers to
who types one, and the tables of the documentation. They are in ``tensor2tensor.yaml``.
"""

from pathlib import Path
from typing import Literal, NamedTuple

from ut_tf.loading import read_yaml


class Counterpart(NamedTuple):
    """What a flag is here.

    Fields:
      kind: "same" (with tensor2tensor's name), "renamed", or "gone".
      text: of "same", the commands that have it, with spaces between; of "renamed", what is typed
        instead; of "gone", why it is not there and what does its work.
    """

    kind: Literal["same", "renamed", "gone"]
    text: str


def _by_name(names: dict[str, list[str]]) -> dict[str, str]:
    return {name: text for text, each in names.items() for name in each}


_NAMES = read_yaml(Path(__file__).with_suffix(".yaml"))
_HYPERPARAMETERS = _NAMES["hyperparameters"]

SAME: tuple[str, ...] = tuple(_HYPERPARAMETERS["same"])
"""Names that mean the same on either side."""
RENAMED: dict[str, str] = _HYPERPARAMETERS["renamed"]
"""Their name -> ours, where the values are the same, too."""
HINTS: dict[str, str] = {**RENAMED, **_HYPERPARAMETERS["related"]}
"""Their name -> what a user types here."""
REMOVED = _by_name(_HYPERPARAMETERS["gone"])
"""Their name -> why there is no such hyperparameter, and what does its work."""
FLAGS = {
    name: Counterpart(kind, text)
    for kind in ("same", "renamed", "gone")
    for name, text in _by_name(_NAMES["flags"][kind]).items()
}
"""Every flag of tensor2tensor's commands."""


def flag_answer(name: str, command: str) -> str | None:
    """Returns the answer of a command that lacks the flag `name`; None: it is none of
    tensor2tensor's.
    """
    found = FLAGS.get(name) or FLAGS.get(name.removeprefix("no"))
    if found is None:
        return None
    if found.kind == "renamed":
        return f"in ut-tf it is {found.text}."
    if found.kind == "gone":
        return f"ut-tf has no such flag: {found.text}."
    owners = [owner for owner in found.text.split() if owner != command]
    return f"it is a flag of {' and '.join(owners)}; leave it out."
