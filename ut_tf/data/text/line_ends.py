"""Line ends: LF, or CR and LF. A CR alone, as old Macintosh programs wrote it, ends no line."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from ut_tf.errors import UserError


def checked_line_ends(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yields the lines of a file as they are.

    Args:
      lines: of the file, divided at LF, with their ends.
      name: of the file, for the message.

    Raises:
      UserError: there is one line alone, with CRs inside, which was meant as several.
    """
    every = iter(lines)
    begin = list(itertools.islice(every, 1))
    if begin and b"\r" in begin[0].rstrip(b"\r\n"):
        # Whoever types lines is not made to wait for a second one before.
        begin += itertools.islice(every, 1)
        if len(begin) == 1:
            count = begin[0].rstrip(b"\r\n").count(b"\r") + 1
            raise UserError(
                f"{name} has CR line ends (old Macintosh), so that {count:,} lines would be one:"
                f" convert them to LF (tr '\\r' '\\n' < FILE)."
            )
    yield from begin
    yield from every
