"""Text in UTF-8: a byte that is none is told of by file, line and place."""

import re

from ut_tf.errors import UserError

_BYTE_ORDER_MARK = "\ufeff"
_SURROGATES = re.compile("[\ud800-\udfff]")


def decode_utf8(content: bytes, name: str, remedy: str, line: int = 1) -> str:
    """The text of a file or of one of its lines; a byte order mark at the file's beginning is left
    out.

    Args:
      content: the bytes, from the beginning of a line.
      name: of the file, for the message.
      remedy: what to do, the end of the message's sentence.
      line: the number of the content's first line.

    Raises:
      UserError: a byte is not UTF-8; names file, line, and the byte's place in the line.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        number = line + before.count(b"\n")
        place = error.start - before.rfind(b"\n")
        raise UserError(
            f"{name}, line {number}: byte {place} of the line is not UTF-8"
            f" (0x{content[error.start]:02x}): {remedy}."
        ) from None
    return text.removeprefix(_BYTE_ORDER_MARK) if line == 1 else text


def surrogate_in(text: str) -> str:
    """The first half of a surrogate pair in a text, such as "U+D800"; "" where it has none."""
    found = _SURROGATES.search(text)
    return f"U+{ord(found[0]):04X}" if found else ""


def readable(text: str) -> str:
    """The text with U+FFFD in place of halves of surrogate pairs, which are no characters: JSON may
    have them, and Python reads bytes of a terminal that are not UTF-8 as such.
    """
    return _SURROGATES.sub("\ufffd", text)
