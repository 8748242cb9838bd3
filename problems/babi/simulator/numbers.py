"""The numbers of a story that its size asks for."""

from __future__ import annotations

from ut_tf.errors import UserError
from ut_tf.problems.babi.simulator.story import StorySize

MANY = 1000


def number_of(
    task: int, size: StorySize, name: str, official: int, least: int = 1, most: int = MANY
) -> int:
    """The number that `size` asks for or, where that is 0, the official files' own."""
    value: int = getattr(size, name) or official
    if least <= value <= most:
        return value
    if most == 0:
        raise UserError(f"task {task} with `{name}`={value}: it takes no {name}; leave them at 0.")
    raise UserError(
        f"task {task} with `{name}`={value}: expected {least} to {most}, or 0 for what the official"
        " files have."
    )
