"""The subword vocabularies of tensor2tensor (SubwordTextEncoder). Needs no TensorFlow.

How it is used::

    subwords = Tensor2TensorSubwords(path.read_bytes(), path)
    subwords.encode(["Ein Hund läuft."])     # [[35, 512, 93, 17, 1]]: tensor2tensor's ids, the end

A text is divided where letters and digits begin and end. Each part becomes a token with "_" behind
it, in which "_", a backslash and characters without a subword are escaped; it is read from its
beginning, the longest subword first. A single blank between two words is left out.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from ut_tf.data.text.utf8 import decode_utf8
from ut_tf.errors import UserError
from ut_tf.symbols import END_ID

TOKEN_END = "_"
_ESCAPING = "\\_u;0123456789"
_ESCAPED = {"\\": "\\\\", "_": "\\u"}
# With and without quotes, as several versions of tensor2tensor wrote them.
_BEGINNING = re.compile(rb"""(['"]?)<pad>_?\1\s*\r?\n(['"]?)<EOS>_?\2\s*(\r?\n|$)""")
_CACHED_TOKENS = 2**16
_LAST_CODE = 0x10FFFF


class Tensor2TensorSubwords:
    """A vocabulary file of tensor2tensor, whose line number is the subword's id.

    Args:
      content: of the file.
      where: its name, for messages.

    Raises:
      UserError: it is not UTF-8, or a character that it uses has no subword of its own, so that
        tensor2tensor itself could not write every text with it.
    """

    def __init__(self, content: bytes, where: str | Path = "the vocabulary") -> None:
        self.model = content
        text = decode_utf8(
            content, str(where), "copy the file again from where the run was trained"
        )
        self.subwords = [_unquoted(line) for line in text.removesuffix("\n").split("\n")]
        self.size = len(self.subwords)
        self.ids = {subword: number for number, subword in enumerate(self.subwords) if subword}
        self.longest = max(map(len, self.subwords))
        # The lines of padding and end are never written: their letters may have no subword.
        used = {character for subword in self.subwords[END_ID + 1 :] for character in subword}
        if missing := sorted((used | {*_ESCAPING}) - self.ids.keys()):
            raise UserError(
                f"{where} has no line for {missing[0]!r} alone, so that not every text can be"
                " written with it: expected a vocabulary as tensor2tensor built it; copy the file"
                " again from where the run was trained."
            )
        self.pieces = {
            character: _ESCAPED.get(character, character) for character in used | {*_ESCAPING}
        } | {"\n": _number("\n")}
        """The text of a character of the vocabulary inside a token; any other is written as its
        number.
        """
        self._subword_ids = functools.lru_cache(_CACHED_TOKENS)(self._read)

    @staticmethod
    def is_such(content: bytes) -> bool:
        """Whether the content of a file begins as tensor2tensor's vocabularies do."""
        return _BEGINNING.match(content) is not None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text without the blanks at its ends, each ended by END_ID."""
        return [
            [*(number for token in tokens(text) for number in self._subword_ids(token)), END_ID]
            for text in texts
        ]

    @property
    def spelled(self) -> frozenset[int]:
        """The ids with a part of a number, by which characters without a subword are written."""
        return frozenset(
            number
            for subword, number in self.ids.items()
            if number > END_ID and ("\\" in subword or ";" in subword)
        )

    def _read(self, token: str) -> tuple[int, ...]:
        """The ids of a token, the longest subword first."""
        escaped = "".join(self.pieces.get(part) or _number(part) for part in token) + TOKEN_END
        ids: list[int] = []
        start = 0
        while start < len(escaped):
            # A single character always has a subword.
            end = min(len(escaped), start + self.longest)
            while escaped[start:end] not in self.ids:
                end -= 1
            ids.append(self.ids[escaped[start:end]])
            start = end
        return tuple(ids)


def tokens(text: str) -> list[str]:
    """The parts of a text, without the blanks at its ends: letters and digits, or others."""
    stripped = text.strip()
    parts = ["".join(part) for _, part in groupby(stripped, is_alphanumeric)]
    return [part for part in parts if part != " "]


def is_alphanumeric(character: str) -> bool:
    """Whether a character is a letter or a number of any script."""
    return unicodedata.category(character)[0] in "LN"


@functools.cache
def alphanumeric_bounds() -> list[int]:
    """The numbers of the characters at which letters and numbers begin and end, in turn."""
    return _bounds(is_alphanumeric)


@functools.cache
def blank_bounds() -> list[int]:
    """The numbers of the characters at which blanks begin and end, in turn."""
    return _bounds(str.isspace)


def _bounds(holds: Callable[[str], bool]) -> list[int]:
    bounds: list[int] = []
    inside = False
    for code in range(_LAST_CODE + 1):
        if holds(chr(code)) != inside:
            bounds.append(code)
            inside = not inside
    return bounds


def _number(character: str) -> str:
    return f"\\{ord(character)};"


def _unquoted(line: str) -> str:
    """A line without the quotes around it, and the blanks behind it."""
    plain = line.rstrip()
    for quote in ("'", '"'):
        if plain.startswith(quote) and plain.endswith(quote):
            return plain[1:-1]
    return plain
