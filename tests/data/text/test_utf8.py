from __future__ import annotations

import pytest

from ut_tf.data.text.utf8 import decode_utf8
from ut_tf.errors import UserError


@pytest.mark.parametrize(
    ("content", "line", "place"),
    [
        (b"fine\nf\xfcnf\n", 1, r"line 2: byte 2 of the line is not UTF-8 \(0xfc\)"),
        (b"\xff", 7, r"line 7: byte 1 of the line is not UTF-8 \(0xff\)"),
        # The mark at the beginning is three bytes of its line.
        (b"\xef\xbb\xbfcut \xe2\x82", 1, r"line 1: byte 8 of the line is not UTF-8 \(0xe2\)"),
    ],
)
def test_a_byte_that_is_no_utf_8_is_told_of_by_its_place(
    content: bytes, line: int, place: str
) -> None:
    with pytest.raises(UserError, match=rf"^a\.txt, {place}: mend it\.$"):
        decode_utf8(content, "a.txt", "mend it", line)


def test_a_byte_order_mark_is_no_text_where_a_file_begins_and_text_elsewhere() -> None:
    marked = "\ufeffone\n\ufefftwo".encode()
    assert decode_utf8(marked, "a.txt", "") == "one\n\ufefftwo"
    assert decode_utf8(marked, "a.txt", "", line=2) == "\ufeffone\n\ufefftwo"
