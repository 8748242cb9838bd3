"""Running English text divided into words and marks by the Penn Treebank's rules.

How it is used::

    # ["``", "i", "ca", "n't", ",", "''", "said", "mr.", "pip", "."]
    treebank_tokens('"I can\\'t," said Mr. Pip.')

LAMBADA's files were divided by Stanford's tools, whose marks are used here: `` and '' for double
quotation marks, ` and ' for single ones, -lrb- and -rrb- for brackets, -- for a dash, ... for three
dots. A full stop belongs to a title (mr.), an initial (j.) and letters with full stops between them
(a.m.); elsewhere it is a word.
"""

import re

_TITLES = (
    "mr|mrs|ms|dr|st|messrs|mme|mlle|rev|hon|prof|gen|col|capt|lieut|lt|sgt|maj|gov|esq|jr|sr|co|vs"
    "|etc"
)
# Words that begin with an apostrophe, which opens no quotation.
_ELIDED = (
    "tis|twas|twere|twill|twould|em|til|till|cause|bout|gainst|neath|cept|un|im|er|ere|tain|tisn"
    "|twasn|nother|pon"
)
_LETTER = r"[^\W\d_]"

# Typographic marks as a typewriter has them; letters written together, and marks of layout.
_PLAIN = str.maketrans(
    {
        "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
        "‘": "'", "’": "'", "‛": "'", "´": "'",
        "—": "--", "–": "--", "―": "--", "…": "...",
        "(": " -lrb- ", ")": " -rrb- ", "[": " -lsb- ",
        "]": " -rsb- ", "{": " -lcb- ", "}": " -rcb- ",
        "_": " ", "\ufeff": "", "\u00ad": "",
    }
)  # fmt: skip

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # A word that was divided at a line's end stays divided: nothing tells it from a compound.
        (r"-{2,}", " -- "),
        (r"(?<=\s)-(?=\s)", " -- "),
        (r"\.(?:\s?\.){2,}", " ... "),
        (r"([?!])(?=[?!])", r"\1"),
        (r"([?!]+)", r" \1 "),
        # Quotation marks open where nothing or an opening stands before them, and close elsewhere.
        (r"``", ' " '),
        (r"(?:^|(?<=[\s`]))\"(?=\S)", " `` "),
        (r"(?<=- )\"(?=\S)", " `` "),
        (r"\"", " '' "),
        (rf"(?:^|(?<=\s))'(?=(?:{_ELIDED})\b)", " \0"),
        (r"(?:^|(?<=\s))'(?=[^\s'])", " ` "),
        ("\0", "'"),
        # A comma, a colon or a full stop inside of a number belongs to it.
        (r"([,:])(?!\d)", r" \1 "),
        (r"(?<!\d)([,:])(?=\d)", r" \1 "),
        (r"([;*#$%&|=<>~^@+\\])", r" \1 "),
        # Contractions: the Treebank's words of their own.
        (rf"(?<={_LETTER})n't\b", " n't"),
        (r"(?<=[\w.])'(s|m|d|re|ll|ve)(?!\w)(?!'\w)", r" '\1"),
        (rf"(?<={_LETTER})('+)(?=\s|$|[.,;:])", r" \1 "),
        (r"\b(can)(not)\b", r"\1 \2"),
        (r"\b(gon|wan)(na)\b", r"\1 \2"),
        (r"\b(got)(ta)\b", r"\1 \2"),
        (r"\b(gim|lem)(me)\b", r"\1 \2"),
        (r"(?<!\w)('t)(is|was|were|will|would|ain)\b", r"\1 \2"),
        # A full stop at a word's end, unless the word is a title, an initial or an abbreviation
        # with full stops.
        (rf"(?<![.\w'])((?:{_TITLES})\.|(?!i\.){_LETTER}\.|(?:{_LETTER}\.){{2,}})(?=\s)", "\\1\1"),
        (r"\.(?=\s|$|[''`,;:)-])(?<!\.\.)", " . "),
        ("\1", ""),
        # What closes behind a mark.
        (r"(?<=[\s.?!,])'(?=\s|$)", " ' "),
    )
)  # fmt: skip


def treebank_tokens(text: str) -> list[str]:
    """The words and marks of running text, in lower case."""
    text = " " + text.lower().translate(_PLAIN) + " "
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.split()
