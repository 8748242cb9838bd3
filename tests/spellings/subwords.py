"""Subwords: sentencepiece's and tensor2tensor's, of translations, of texts with classes and of a
language model. Every text can be written with them: nothing is refused.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

from tests.spellings.table import Table
from ut_tf.data.text.subwords import train_subwords
from ut_tf.data.text.vocabulary import write_symbols

_GOLDEN = Path(__file__).parents[1] / "golden" / "t2t_subwords" / "vocab.toy.512.subwords"
_LINES = [
    f"{subject} {verb} {thing}."
    for subject in ("Ein Mann", "Eine Frau", "Der Hund", "Das Mädchen")
    for verb in ("läuft über", "sieht", "größer als", "trägt")
    for thing in ("die Straße", "den Fluss", "ein Büschel Gras", "zwei Äpfel")
]
_HUND = "Der Hund läuft."


@functools.cache
def _trained() -> bytes:
    return train_subwords(_LINES, 360)


def _subwords(folder: Path) -> None:
    (folder / "subwords.model").write_bytes(_trained())


def _with_classes(folder: Path) -> None:
    _subwords(folder)
    write_symbols(folder / "classes.txt", ("good", "bad", "Neither one"))


def _tensor2tensor(folder: Path) -> None:
    shutil.copy(_GOLDEN, folder / "subwords.model")


_HUND_SPELLED = [
    *(_HUND, f" {_HUND} ", _HUND.replace(" ", "  "), _HUND.replace(" ", "\t"), f"{_HUND}\r"),
    *(_HUND.replace("ä", "a\u0308"), f"\t {_HUND}  ", _HUND.replace(" ", " \t ")),
]
_OTHERS = {
    "der Hund läuft.": ["der Hund läuft.", " der  Hund läuft."],
    "Der Hund lauft.": ["Der Hund lauft."],
    "Ｄer Hund läuft.": ["Ｄer Hund läuft.", "Ｄer  Hund läuft."],
    "Der Hund läuft。": ["Der Hund läuft。"],
    "12": ["12", " 12"],
    "１２": ["１２", " １２ "],
    "١٢": ["١٢"],
    "犬": ["犬", " 犬"],
    "🐕": ["🐕"],
    # Blanks of other scripts, marks and controls are symbols of their own.
    "Der\u00a0Hund": ["Der\u00a0Hund", " Der\u00a0Hund"],
    "Der\u3000Hund": ["Der\u3000Hund"],
    "Der\u2028Hund": ["Der\u2028Hund"],
    "Der\u200bHund": ["Der\u200bHund"],
    "Der\x00Hund": ["Der\x00Hund"],
}

TRANSLATIONS = Table(
    "translations",
    "translate_files",
    vocabulary=_subwords,
    reads={"": ["", " ", "\t"], _HUND: _HUND_SPELLED, **_OTHERS},
    refuses={},
    reads_targets={_HUND: _HUND_SPELLED, "": ["", " "], "１２": ["１２"]},
)

TENSOR2TENSOR = Table(
    "tensor2tensor's subwords",
    "translate_files",
    vocabulary=_tensor2tensor,
    reads={
        "": ["", " ", "\t"],
        _HUND: [_HUND, f" {_HUND} ", f"{_HUND}\r", f"\u00a0{_HUND}\u3000", f"\t{_HUND}\u2028"],
        "Der  Hund läuft.": ["Der  Hund läuft.", " Der  Hund läuft."],
        "Der Hund la\u0308uft.": ["Der Hund la\u0308uft."],
        **{text: [text, f" {text}\u00a0"] for text in _OTHERS},
    },
    refuses={},
)

CLASSES = Table(
    "classes",
    "classify_files",
    targets="class",
    vocabulary=_with_classes,
    reads={"": ["", " ", "\t"], _HUND: _HUND_SPELLED, **_OTHERS},
    refuses={},
    reads_targets={
        "good": ["good", " good ", "good\r"],
        "Neither one": ["Neither one"],
        "Good": ["Good", "", "neither", "Neither  one", "ｇｏｏｄ"],
    },
)

LINES = Table(
    "lines",
    "lm_files",
    inputs="none",
    vocabulary=_subwords,
    reads={"": ["", " ", "\t"], _HUND: _HUND_SPELLED, **_OTHERS},
    refuses={},
    reads_targets={"": ["", " "], _HUND: _HUND_SPELLED, **_OTHERS},
)
