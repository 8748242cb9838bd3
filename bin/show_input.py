"""What ut-show says about words that a model was never shown.

Example::

    unknown_words_message(["kichen"], known)
    # 'the model does not know "kichen"; near words that it knows: kitchen.'
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_NEAR = 3
_SHOWN = 40


def unknown_words_message(unknown: Sequence[str], known: Sequence[str]) -> str:
    """One sentence about the words that the model was never shown, with the nearest ones.

    Args:
      unknown: at least one word.
      known: the model's words.
    """
    quoted = ", ".join(f'"{word}"' for word in unknown)
    near = [
        match
        for word in unknown
        for match in difflib.get_close_matches(word.lower(), known, n=_NEAR, cutoff=0.7)
    ]
    if near:
        return f"the model does not know {quoted}; near words that it knows: {_listed(near)}."
    return f"the model does not know {quoted}; it knows {_listed(known)}."


def _listed(words: Sequence[str]) -> str:
    distinct = [*dict.fromkeys(words)]
    others = len(distinct) - _SHOWN
    return ", ".join(distinct[:_SHOWN]) + (f" and {others} more words" if others > 0 else "")
