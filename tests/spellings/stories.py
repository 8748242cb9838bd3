"""Stories and their questions."""

from __future__ import annotations

from pathlib import Path

from tests.spellings.table import Example, Table
from ut_tf.data.text.vocabulary import UNKNOWN, write_symbols

_WORDS = (UNKNOWN, "mary", "john", "left", "moved", "to", "the", "hall", "where", "is")
_STORY, _QUESTION = "Mary left.\nJohn moved to the hall.", "Where is Mary?"
_ONE = "John moved to the hall."


def _vocabulary(folder: Path) -> None:
    write_symbols(folder / "words.txt", _WORDS)
    write_symbols(folder / "answers.txt", ("hall", "kitchen", "garden"))


def _lines(example: Example) -> str | None:
    """Sentences, a question with its mark, and the empty line behind a story."""
    story, question = (text if isinstance(text, str) else "\n".join(text) for text in example)
    asks = question.strip().endswith("?") and len(question.strip(" ?").split("?")) == 1
    has_empty_line = not all(map(str.strip, story.split("\n")))
    if not asks or not question.strip(" ?") or {*"?\t"} & {*story} or {*"\t\n.!"} & {*question}:
        return None
    return None if story and has_empty_line else f"{story}\n{question}\n"


def _asked(*questions: str) -> list[Example]:
    return [(_STORY, question) for question in questions]


def _told(*stories: str | tuple[str, ...]) -> list[Example]:
    return [(story, _QUESTION) for story in stories]


STORIES = Table(
    "stories",
    "babi_qa_task1_1k",
    inputs="facts",
    targets="class",
    max_words=6,
    vocabulary=_vocabulary,
    line=_lines,
    reads={
        ("", ""): [("", ""), (" ", ""), ("\n", " ")],
        (_STORY, _QUESTION): [
            *_told(
                "Mary left. John moved to the hall.",
                "Mary left! John moved to the hall!",
                "Mary left.John moved to the hall.",
                "Mary left... John moved to the hall",
                "Mary left\nJohn moved to the hall",
                "mary LEFT.\n\njohn moved to the hall.",
                "  Mary   left .\n John moved, to the hall . \n",
                '"Mary" left; \nJohn moved (to the hall).\r',
                "Mary\u00a0left. John\u3000moved to\u2009the hall.",
                ("Mary left.", "John moved to the hall."),
                ("Mary left", "John moved to the hall"),
                ("Mary left. John moved to the hall.",),
                ("", "Mary left.", "", "John moved to the hall.\n"),
            ),
            *_asked(
                *("where is mary", "Where is Mary", " Where  is Mary ? ", "WHERE IS MARY???"),
                *("Where is Mary.", "Where is Mary!", "Where's".replace("'s", " is Mary?")),
                *(
                    "¿Where is Mary?",
                    "Where is Mary？",
                    "Where\u00a0is\u00a0Mary?",
                    "Where, is Mary?",
                ),
                *("“Where is Mary?”", "(Where is Mary?)", "Where is Mary? ..."),
            ),
        ],
        (_ONE, _QUESTION): [(_ONE, "Where is Mary?"), ((_ONE,), "where is mary")],
        ("", _QUESTION): [("", "Where is Mary?"), ((), "where is Mary"), ("...", "Where is Mary?")],
        (_ONE, "Where is <unknown>?"): [
            *((_ONE, f"Where is {word}?") for word in ("Zoe", "Ｍａｒｙ", "Márý", "12", "Maryy"))
        ],
    },
    refuses={
        "has a question: expected statements alone": [
            *_told("Mary left? John moved.", "Where is John? Mary left.", "Mary left.\thall"),
            *_told(("Mary left.", "Where is John?")),
        ],
        "has several sentences: expected one": _asked(
            *("Where is Mary? Where is John?", "Mary left. Where is Mary?", "Where is\nMary?"),
            *("Where is Mary?\thall\t1", "Where is Mary?."[:-1] + "! Is John?"),
        ),
        "has no word: expected one": _asked("", "?", " ", "...", "“?”", "\u200b?"),
        "the question has no word that the model knows (": _asked(
            "xyzzy?", "Ｗｈｅｒｅ？", "何処?"
        ),
    },
    reads_targets={"hall": ["hall", "Hall", " HALL "], "kitchen": ["kitchen"], "moon": ["moon"]},
    reads_lines={
        (_STORY, _QUESTION): [
            "1 Mary left.\n2 John moved to the hall.\n3 Where is Mary?\tkitchen\t1",
            "1 Mary left.\r\n2 John moved to the hall.\r\n3 Where is Mary?\r",
            "1 mary left\n2 john moved to the hall\n3 where is mary\t",
            "Mary left. John moved to the hall. Where is Mary?",
            "Mary left.\nJohn moved to the hall. Where is Mary?\tkitchen",
            "\n\nMary left! John moved to the hall!\nWhere is Mary?\n\n",
        ]
    },
    refuses_lines={
        "bAbI's format": [
            *("2 Mary left.\n3 Where is Mary?", "1 Mary left.\n3 Where is Mary?"),
            *("1 Mary left.\n2 \thall", "Mary left.\n2 Where is Mary?"),
        ],
        "no question": ["Mary left.", "Mary left. John moved to the hall."],
    },
)
