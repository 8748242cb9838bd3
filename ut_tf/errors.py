"""The error that a user's mistake raises: the commands print it as one line, without a stack trace.

``UserError`` carries one sentence: what was wrong (value, file, line), what was expected, what to
do.
"""

import contextlib
import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any


class UserError(Exception):
    """A mistake that the user can mend; its text is the whole message."""

    # Keras adds the arguments of the layer that was called to errors that lack this.
    _keras_call_info_injected = True


# Of difflib's ratio: below it, two names share letters by chance ("acr" and "basic": .5).
_LIKE, _MUCH_LESS = 0.6, 0.2
_BEGINNING = 3
_LONGEST_REASON = 300
_MARK, _END = "[user error: ", " :end]"


def marked(sentence: str) -> str:
    """A sentence, without quotation marks, for a check inside a graph; ``marked_in`` finds it in
    all that its error says.
    """
    return f"{_MARK}{sentence}{_END}"


def marked_parts(parts: Sequence[Any]) -> list[Any]:
    """A sentence of texts and tensors, for a check inside a graph; a text stands first and last."""
    first, *others, last = parts
    return [f"{_MARK}{first}", *others, f"{last}{_END}"]


def marked_in(error: BaseException) -> str | None:
    """The sentence that a check inside a graph was given, or None where the error is of another
    kind.
    """
    text = str(error)
    if _MARK not in text or _END not in text:
        return None
    # TensorFlow shows each part of a check's data in brackets.
    return text.split(_MARK, 1)[1].split(_END, 1)[0].replace("] [", "")


@contextlib.contextmanager
def file_errors(
    what: object, advice: str, done: str = "read", also: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turns an OSError in the context into a UserError, "WHAT cannot be DONE (reason): ADVICE."

    Args:
      what: is read or written, a path for one.
      advice: what to do, without a full stop; empty: nothing is said.
      done: "read", "written" or the like.
      also: other errors that say so.

    Raises:
      UserError: in place of an OSError, or of one of `also`.
    """
    kinds: tuple[type[Exception], ...] = (OSError, *also)
    try:
        yield
    except kinds as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        text = f"{what} cannot be {done} ({shown(reason, _LONGEST_REASON)})"
        raise UserError(f"{text}: {advice}." if advice else f"{text}.") from error


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 line" or "2 lines"; the plural takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def near_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """At most `count` of the `known` names that look most like `name` in any case of its letters,
    best first; none that is much less like it than the best. Where none is like it, those that
    begin with it.
    """
    lowercase = name.lower()
    names = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(lowercase, names, n=count, cutoff=_LIKE)
    if not near and len(name) >= _BEGINNING:
        begun = [candidate for candidate in names if candidate.startswith(lowercase)]
        near = sorted(begun, key=len)[:count]
    likeness = [difflib.SequenceMatcher(None, candidate, lowercase).ratio() for candidate in near]
    return [
        names[candidate]
        for candidate, ratio in zip(near, likeness, strict=True)
        if ratio > likeness[0] - _MUCH_LESS
    ]


def check_arguments(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises UserError, with the near names, where `what` is given an argument that it lacks."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f": it takes {', '.join(known) or 'none'}."
            raise UserError(f"{what} has no argument {name!r}{hint}")


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """``'; did you mean a, b?'`` with the near names, each after `prefix`; empty where none is
    near.
    """
    near = [prefix + candidate for candidate in near_names(name, known)]
    return f"; did you mean {', '.join(near)}?" if near else ""


def shown(text: Iterable[str], most: int = 100) -> str:
    """What a client sent, as a message quotes it: the first `most` characters.

    Args:
      text: a text, or its parts, of which no more are made than are shown.
      most: characters.
    """
    beginning = ""
    for part in text:
        beginning += part[: most + 1]
        if len(beginning) > most:
            return f"{beginning[:most]}..."
    return beginning
