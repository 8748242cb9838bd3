"""What a reader types, as the lines of a story that a problem reads; needs no TensorFlow.

A story may be written as people write it: sentences on lines or one after the other, without
numbers. Example::

    story_lines("Anna went to the attic. Where is Anna?")
    # ["1 Anna went to the attic.", "2 Where is Anna?"]
"""

from ut_tf.data.text.sentences import is_numbered, sentences


def story_lines(text: str) -> list[str]:
    """The lines of stories in bAbI's format; lines with numbers are taken as they are. An empty
    line begins a new story.
    """
    lines = text.rstrip("\n").split("\n")
    if any(map(is_numbered, lines)):
        return lines
    numbered, number = [], 0
    for line in lines:
        if not line.strip():
            number = 0
        for sentence in sentences(line):
            number += 1
            numbered.append(f"{number} {sentence}")
    return numbered


def stories(text: str) -> list[range]:
    """A text's lines by story, from 0: one begins with a 1 or, unnumbered, after an empty line."""
    lines = text.split("\n")
    has_numbers = any(map(is_numbered, lines))
    starts = [
        number
        for number, line in enumerate(lines)
        if number == 0 or (line.split()[:1] == ["1"] if has_numbers else not line.strip())
    ]
    return [range(*pair) for pair in zip(starts, [*starts[1:], len(lines)], strict=True)]
