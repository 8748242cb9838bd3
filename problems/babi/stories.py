"""Stories in bAbI's format: read from lines, and divided for validation.

A file holds stories. Each line begins with its number in the story, from 1; a line with a tab is a
question, its answer and the numbers of the lines that support it, which may be absent; any other
line is a statement::

    1 Mary moved to the bathroom.
    2 John went to the hallway.
    3 Where is Mary? <tab>bathroom<tab>1
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ut_tf.problems.babi.lines import malformed, numbered_lines

ALL_TASKS = tuple(range(1, 21))
_VALIDATION_SHARE = 0.1


@dataclass
class Story:
    """One story.

    Args:
      task: number of the task.
      sentences: the statements.
      questions, answers: one for each question.
      positions: of each question, the number of statements before it.
      supporting: of each question, the numbers of the file's lines that support the answer,
        questions counted, as the file orders them.
    """

    task: int
    sentences: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    supporting: list[list[int]] = field(default_factory=list)


def tasks_label(tasks: tuple[int, ...]) -> str:
    """The tasks in the name of a folder: "all_tasks", "task1_2"."""
    return "all_tasks" if tasks == ALL_TASKS else "task" + "_".join(map(str, tasks))


def default_facts(tasks: tuple[int, ...]) -> int:
    """How many facts a question keeps, as in the paper's code: 130 for task 3 alone, else 70."""
    return 130 if tasks == (3,) else 70


def parse_stories(lines: Iterable[str], task: int, file: str) -> Iterator[Story]:
    """Yields the stories of a file in bAbI's format.

    Args:
      lines: the file's lines.
      task: number of the task that the stories belong to.
      file: the file's name, for messages.

    Raises:
      UserError: names the file and the line that is not of the format.
    """
    story: Story | None = None
    for count, number, text in numbered_lines(lines, file):
        if number == 1 and story is not None:
            yield story
        if number == 1 or story is None:
            story = Story(task)
        if "\t" not in text:
            if "?" in text:
                raise malformed(file, count, text, "a tab between a question and its answer")
            story.sentences.append(text.strip())
            continue
        question, answer, supporting, *_ = (part.strip() for part in [*text.split("\t"), ""])
        if not question or not answer:
            raise malformed(file, count, text, "a question, a tab and its answer")
        if not all(_is_before(line, number) for line in supporting.split()):
            raise malformed(
                file,
                count,
                text,
                "numbers of lines before it, with blanks between, after the second tab",
            )
        story.questions.append(question)
        story.answers.append(answer.lower())
        story.positions.append(len(story.sentences))
        story.supporting.append([int(line) for line in supporting.split()])
    if story is not None:
        yield story


def _is_before(line: str, number: int) -> bool:
    """Whether digits name a line before that of `number`."""
    is_number = line.isascii() and line.isdigit() and len(line) <= len(str(number))
    return is_number and 0 < int(line) < number


def first_questions(stories: Iterable[Story], count: int) -> list[Story]:
    """The stories up to their question number `count`."""
    made: list[Story] = []
    for story in stories:
        if count <= 0:
            break
        last = slice(count)
        lists = ("questions", "answers", "positions", "supporting")
        made.append(replace(story, **{name: getattr(story, name)[last] for name in lists}))
        count -= len(story.questions)
    return made


def split_validation(stories: list[Story]) -> tuple[list[Story], list[Story]]:
    """The stories for training and those for validation: the last whole stories that hold at least
    10 % of the questions.

    At least one story is left for training.
    """
    wanted = _VALIDATION_SHARE * sum(len(story.questions) for story in stories)
    first, questions = len(stories), 0
    while first > 1 and questions < wanted:
        first -= 1
        questions += len(stories[first].questions)
    return stories[:first], stories[first:]
