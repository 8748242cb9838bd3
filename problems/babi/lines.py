"""The lines of bAbI's files; needs no TensorFlow.

How it is used::

    for story, question in questions(open("questions.txt"), "questions.txt"): ...

Every line begins with its number in the story; 1 begins a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ut_tf.errors import UserError


def questions(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Yields (story, question) for each question of a file in bAbI's format, as soon as its line is
    read.

    A line with a tab, or whose text ends in "?", is a question; its answer may be there, and is not
    looked at. The sentences of a story stand between newlines.

    Args:
      lines: of the file.
      name: of the file, for messages.

    Raises:
      UserError: names the file and the line that is not of the format.
    """
    story: list[str] = []
    for count, number, text in numbered_lines(lines, name, skip_blank=True):
        if number == 1:
            story = []
        question, tab, _ = text.partition("\t")
        if not tab and not text.endswith("?"):
            if "? " in text:
                raise malformed(name, count, text, "a tab between a question and its answer")
            story.append(text)
        elif question.strip():
            yield "\n".join(story), question.strip()
        else:
            raise malformed(name, count, text, "a question before the tab")


def numbered_lines(
    lines: Iterable[str], file: str, skip_blank: bool = False
) -> Iterator[tuple[int, int, str]]:
    """Yields (count of the line in the file, its number in the story, its text) for each line in
    bAbI's format.

    Args:
      lines: the file's lines.
      file: the file's name, for messages.
      skip_blank: whether a blank line is passed over; otherwise it is not of the format.

    Raises:
      UserError: a line does not begin with the number after that of the line before it, or with 1;
        names the file and the line.
    """
    last = 0
    for count, line in enumerate(lines, start=1):
        number, _, text = line.strip(" \r\n").partition(" ")
        if skip_blank and not number:
            continue
        if number == "1":
            last = 0
        if number != str(last + 1) or not text.strip():
            raise malformed(
                file,
                count,
                line,
                f"a line that begins with {last + 1} (or 1, for a new story) and a blank",
            )
        last += 1
        yield count, last, text.strip(" \r\n")


def malformed(file: str, count: int, line: str, expected: str) -> UserError:
    """The error about a line that is not of bAbI's format."""
    return UserError(
        f"{file}, line {count}: {line.rstrip()[:80]!r} is not in bAbI's format: expected"
        f" {expected}; correct that line."
    )
