"""Stories and questions in lines: bAbI's files, or plain sentences; needs no TensorFlow.

How it is used::

    for line, story, question in questions(open("questions.txt"), "questions.txt"): ...

In bAbI's files every line begins with its number in the story; 1 begins a new one. Plain sentences
stand on lines or one after the other; an empty line begins a new story.
"""

import itertools
from collections.abc import Iterable, Iterator

from ut_tf.data.text.sentences import as_one_sentence, is_numbered, sentences
from ut_tf.errors import UserError


def questions(lines: Iterable[str], name: str) -> Iterator[tuple[int, str, str]]:
    """Yields (number of its line, story, question) for each question of a file in bAbI's format or,
    where its first line has no number, of plain sentences, as soon as that line is read.

    A line with a tab, or whose text ends in "?", is a question; its answer may be there, and is not
    looked at. The sentences of a story stand between newlines.

    Args:
      lines: of the file.
      name: of the file, for messages.

    Raises:
      UserError: names the file and the line that is not of the format.
    """
    story: list[str] = []
    for count, number, text in _sentences(lines, name):
        if number == 1:
            story = []
        question, tab, _ = text.partition("\t")
        if not tab and not text.endswith("?"):
            if "? " in text:
                raise malformed(name, count, text, "a tab between a question and its answer")
            story.append(text)
        elif question.strip():
            yield count, "\n".join(story), question.strip()
        else:
            raise malformed(name, count, text, "a question before the tab")


def _sentences(lines: Iterable[str], name: str) -> Iterator[tuple[int, int, str]]:
    """Yields (count of the line in the file, number in the story, text) for each sentence."""
    source = iter(lines)
    begin: list[str] = []
    for line in source:
        begin.append(line)
        if line.strip():
            break
    every = itertools.chain(begin, source)
    # Without any text there is nothing to answer in either form.
    if not (begin and begin[-1].strip()) or is_numbered(begin[-1]):
        for count, number, line in numbered_lines(every, name, skip_blank=True):
            text, tab, answer = line.partition("\t")
            yield count, number, as_one_sentence(text) + tab + answer
    else:
        yield from _plain_sentences(every, name)


def _plain_sentences(lines: Iterable[str], name: str) -> Iterator[tuple[int, int, str]]:
    number, asked = 0, False
    for count, line in enumerate(lines, start=1):
        if is_numbered(line):
            raise malformed(name, count, line, "no number, as the lines before it have none")
        if not line.strip():
            number = 0
        for sentence in sentences(line):
            number += 1
            asked = asked or "?" in sentence or "\t" in sentence
            yield count, number, sentence
    if not asked:
        raise UserError(f'{name} has no question: end one with "?".')


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
