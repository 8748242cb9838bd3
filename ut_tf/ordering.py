"""The order of names as people have it."""

import re
from typing import Any


def natural_order(name: str) -> list[Any]:
    """A key that puts task2 before task10."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", name))]
