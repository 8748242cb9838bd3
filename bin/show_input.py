"""What is typed into ut-show: questions, and words that a model was never shown.

Example::

    unknown_words_message(["kichen"], known)
    # 'the model does not know "kichen"; near words that it knows: kitchen.'
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

_NEAR = 3
_SHOWN = 100
_QUESTION_START = re.compile(
    r"(where|what|who|whom|whose|which|when|how|why|is|are|was|were|does|do|did|can|has|have)\b",
    re.IGNORECASE,
)


def unknown_words_message(unknown: Sequence[str], known: Sequence[str]) -> str:
    """One sentence about the words that the model was never shown, with the nearest ones.

    Args:
      unknown: at least one word.
      known: the model's words.
    """
    quoted = ", ".join(f'"{word}"' for word in unknown)
    sentence = f"the model does not know {quoted}"
    near = [
        match
        for word in unknown
        for match in difflib.get_close_matches(word.lower(), known, n=_NEAR, cutoff=0.7)
    ]
    if near:
        return f"{sentence}; near words that it knows: {', '.join(dict.fromkeys(near))}."
    return f"{sentence}."


def known_words_message(known: Sequence[str]) -> str:
    """One sentence that names the words of a model, or the first of many."""
    others = f" and {len(known) - _SHOWN} more words" if len(known) > _SHOWN else ""
    return f"The model knows {', '.join(known[:_SHOWN])}{others}."


def is_question(sentence: str) -> bool:
    """Whether a sentence begins as a question does; it may lack the "?"."""
    return _QUESTION_START.match(sentence.strip()) is not None
