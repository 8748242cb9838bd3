"""Line ends: LF, or CR and LF. A CR alone, as old Macintosh programs wrote it, ends no line."""

from collections.abc import Iterable, Iterator

from ut_tf.errors import UserError


def check_line_ends(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yields the lines of a file as they are.

    A CR here and there inside a line is text, as crawled corpora have it.

    Args:
      lines: of the file, divided at LF, with their ends.
      name: of the file, for the message.

    Raises:
      UserError: at some line the file has had no fewer CRs inside lines than lines: they were meant
        as line ends.
    """
    inside = 0
    for number, line in enumerate(lines, start=1):
        # Most lines have no CR at all.
        if b"\r" in line:
            inside += line.rstrip(b"\r\n").count(b"\r")
            if inside >= number:
                raise UserError(
                    f"{name}, line {number} has CR line ends (old Macintosh), so that"
                    f" {inside + 1:,} lines would be one: convert them to LF (tr '\\r' '\\n' <"
                    " FILE), or take them away where they end no line (sed 's/\\r\\(.\\)/ \\1/g'"
                    " FILE)."
                )
        yield line
