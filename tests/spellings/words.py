"""Sentences of agreement and LAMBADA's passages: words with blanks between."""

from __future__ import annotations

from pathlib import Path

from tests.spellings.table import Table
from ut_tf.data.text.vocabulary import UNKNOWN, write_symbols

_WORDS = ("the", "keys", "to", "cabinet", "are", "is", "<A>", "<0>")
_KEYS = "the keys to the cabinet"


def _agreement(folder: Path) -> None:
    write_symbols(folder / "words.txt", (UNKNOWN, *_WORDS))


def _lambada(folder: Path) -> None:
    numbered = [f"<unknown-{number}>" for number in range(1, 21)]
    write_symbols(folder / "words.txt", (UNKNOWN, "<absent>", *numbered, *_WORDS))


_KEYS_SPELLED = [
    *(_KEYS, f" {_KEYS} ", _KEYS.replace(" ", "  "), _KEYS.replace(" ", "\t"), f"{_KEYS}\r"),
    *(_KEYS.replace(" ", "\u000b"), _KEYS.replace(" ", "\u000c")),
]
_WITH_UNKNOWN = [
    *("the <unknown>", "the zoo", "the Keys", "the KEYS", "the keys.", "the ｋｅｙｓ", "the kéys"),
    *("the k\u0301eys", "the keys\u00a0to", "the 12", "the \x00"),
]
_NO_KNOWN = ["zoo", "THE", "The Keys", "ｔｈｅ", "thé", "the,", "12", "...", "the\u00a0keys", "鍵"]

SENTENCES = Table(
    "sentences",
    "sva_language_modeling",
    inputs="none",
    vocabulary=_agreement,
    reads={"": ["", " "], _KEYS: _KEYS_SPELLED, "the <unknown>": _WITH_UNKNOWN},
    refuses={"the text has no word that the model knows (": _NO_KNOWN},
    reads_targets={_KEYS: _KEYS_SPELLED, "the <unknown>": _WITH_UNKNOWN},
    refuses_targets={"the text has no word that the model knows (": _NO_KNOWN},
)

NUMBERS = Table(
    "numbers",
    "sva_number_prediction",
    targets="class",
    vocabulary=_agreement,
    reads={"": ["", " "], _KEYS: _KEYS_SPELLED, "the <unknown>": _WITH_UNKNOWN},
    refuses={"the text has no word that the model knows (": _NO_KNOWN},
    reads_targets={
        "singular": ["singular", " singular "],
        "plural": ["plural", "plural\r"],
        "Plural": ["Plural", "dual", ""],
    },
)

_NUMBERED_UNKNOWN = [
    *("the zoo the", "The Zoo THE", "the zoo\u00a0the", "the\u3000zoo the", " the  zoo\tthe\r"),
    *("the zoo\u2028the", "the xyzzy the", "the ｋｅｙｓ the", "the 12 the", "the k\u0301eys the"),
]
_LAMBADA_KEYS = [*_KEYS_SPELLED, _KEYS.title(), _KEYS.upper(), _KEYS.replace(" ", "\u00a0")]

PASSAGE_TEXTS = Table(
    "passage texts",
    "lambada_lm",
    inputs="none",
    vocabulary=_lambada,
    reads={"": ["", " "], _KEYS: _LAMBADA_KEYS, "the <unknown-1> the": _NUMBERED_UNKNOWN},
    refuses={},
    reads_targets={
        _KEYS: _LAMBADA_KEYS,
        "the <unknown-1> the": _NUMBERED_UNKNOWN,
        "the <unknown-1> <unknown-2>": ["the zoo xyzzy", "the Zoo, zoo"],
        "the <unknown-1> <unknown-1>": ["the zoo zoo", "the Zoo ZOO"],
    },
)

_QUESTION = "the keys to the"
PASSAGES = Table(
    "passages",
    "lambada_rc",
    targets="word",
    vocabulary=_lambada,
    reads={
        ("", ""): [("", ""), (" ", " ")],
        (_KEYS, _QUESTION): [
            *((text, _QUESTION) for text in _LAMBADA_KEYS),
            *(
                (_KEYS, text)
                for text in (_QUESTION.upper(), f" {_QUESTION} \r", "the\u00a0keys to the")
            ),
        ],
        ("the <unknown-1> the", _QUESTION): [(text, _QUESTION) for text in _NUMBERED_UNKNOWN],
        ("the <unknown-1>", "is <unknown-1>"): [("the zoo", "is zoo"), ("THE ZOO", "is Zoo")],
        ("the <unknown-1>", "is <unknown-2>"): [("the zoo", "is xyzzy")],
    },
    refuses={
        "expected words in both": [
            *((_KEYS, ""), ("", _KEYS), (_KEYS, " "), ("\u00a0", _KEYS), (_KEYS, "\u2028"))
        ]
    },
    reads_targets={
        "keys": ["keys", "Keys", " KEYS "],
        "cabinet": ["cabinet"],
        "zoo": ["zoo", "", "the keys"],
    },
    reads_lines={(_KEYS, _QUESTION): [f"{_KEYS}\t{_QUESTION}", f"{_KEYS} \t {_QUESTION}\r"]},
    refuses_lines={
        "expected ": [_KEYS, f"{_KEYS}\t{_QUESTION}\tkeys", f"\t{_KEYS}\tkeys"],
        "expected words in both": [f"{_KEYS}\t", f"\t{_KEYS}"],
    },
)
