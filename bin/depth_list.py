"""Lists of recurrent depths as a user writes them: "1,2,4..512", "1..32", "1,2,3,8"."""

import re

from ut_tf.bin.frame.flags import FlagError

_MOST_DEPTHS = 1000
_MOST_STEPS = 1_000_000
_PART = re.compile(r"(\d{1,7})(?:\.\.(\d{1,7}))?", re.ASCII)


def depths_in(text: str) -> tuple[int, ...]:
    """Returns the depths in ascending order: numbers, and ranges "first..last", which count up by
    one, or double where the number before them is half of their first.

    Raises:
      FlagError: it is no such list, or longer than 1,000 depths.
    """
    depths: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise _error(text, f"{part!r} is neither a depth nor a range")
        first, last = int(match[1]), int(match[2] or match[1])
        if not depths[-1:] < [first] or not 1 <= first <= last <= _MOST_STEPS:
            raise _error(text, f"{part!r} does not go up from 1 and the depth before it")
        doubles = depths[-1:] == [first / 2]
        depths += _doubled(first, last) if doubles else range(first, last + 1)[: _MOST_DEPTHS + 1]
    if len(depths) > _MOST_DEPTHS:
        raise _error(text, f"these are more than {_MOST_DEPTHS} depths")
    return tuple(depths)


def _doubled(first: int, last: int) -> list[int]:
    return [first << power for power in range((last // first).bit_length())]


def _error(text: str, reason: str) -> FlagError:
    return FlagError(
        f"--depth_sweep={text}: {reason}; expected depths in ascending order, such as 1,2,3,8, with"
        " ranges of every depth, 1..32, or doubled ones, 1,2,4..512."
    )
