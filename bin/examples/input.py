"""What is typed into ut-show: questions, and the words for them."""

import re
from collections.abc import Sequence

_SHOWN = 100
_QUESTION_START = re.compile(
    r"(where|what|who|whom|whose|which|when|how|why|is|are|was|were|does|do|did|can|has|have)\b",
    re.IGNORECASE,
)


def known_words_message(known: Sequence[str]) -> str:
    """One sentence that names the words of a model, or the first of many."""
    others = f" and {len(known) - _SHOWN} more words" if len(known) > _SHOWN else ""
    return f"The model knows {', '.join(known[:_SHOWN])}{others}."


def is_question(sentence: str) -> bool:
    """Whether a sentence begins as a question does; it may lack the "?"."""
    return _QUESTION_START.match(sentence.strip()) is not None
