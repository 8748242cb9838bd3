"""What ut-show and ut-insights read: texts that flags give, and what is typed."""

import re
from collections.abc import Sequence
from typing import Any

from ut_tf.inference.text_files import read_input
from ut_tf.paths import expanded

_SHOWN = 100
_QUESTION_START = re.compile(
    r"(where|what|who|whom|whose|which|when|how|why|is|are|was|were|does|do|did|can|has|have)\b",
    re.IGNORECASE,
)


def given_texts(values: Any) -> list[tuple[str, str]]:
    """The names and texts of --input and --input_file."""
    texts = []
    if values.input is not None:
        texts.append(("--input", values.input))
    if values.input_file:
        texts.append((values.input_file, "\n".join(read_input(expanded(values.input_file)))))
    return texts


def known_words_message(known: Sequence[str]) -> str:
    """One sentence that names the words of a model, or the first of many."""
    others = f" and {len(known) - _SHOWN} more words" if len(known) > _SHOWN else ""
    return f"The model knows {', '.join(known[:_SHOWN])}{others}."


def is_question(sentence: str) -> bool:
    """Whether a sentence begins as a question does; it may lack the "?"."""
    return _QUESTION_START.match(sentence.strip()) is not None
