"""Questions that stand in more than one split, facts and all.

How it is used::

    splits, left_out = separate_splits(splits, max_facts=70, judged=("validation",))
    train = exclude_questions(train, questions_of(test, 70), 70)

Two questions are the same if the words of their facts and their own are: what a model reads.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from ut_tf.errors import UserError
from ut_tf.problems.babi.stories import Story, first_questions, split_validation

Asked = tuple[str, ...]
"""The words of the facts before a question, and of the question."""

# Of the questions that are wanted, so many are drawn at most.
_MOST_DRAWN = 10
_NO_WORD = re.compile(r"[^\w\s]|_")


def questions_of(stories: Iterable[Story], max_facts: int) -> Iterator[Asked]:
    """Yields what each question of the stories asks; `max_facts`: the last so many are read."""
    for story in stories:
        facts = [_words(sentence) for sentence in story.sentences]
        for question, end in zip(story.questions, story.positions, strict=True):
            yield (*facts[max(0, end - max_facts) : end], _words(question))


def exclude_questions(
    stories: Iterable[Story], others: Collection[Asked], max_facts: int
) -> list[Story]:
    """The stories without the questions that are among `others`; those without any question go."""
    left = (_left(story, others, max_facts) for story in stories)
    return [story for story in left if story.questions]


def separate_splits(
    splits: Mapping[str, list[Story]], max_facts: int, judged: Iterable[str]
) -> tuple[dict[str, list[Story]], dict[str, int]]:
    """The splits without the questions of `judged` that stand in training or in an earlier one, and
    how many these are, by split. What is trained on stays as it is.
    """
    made, left_out = dict(splits), {}
    seen = {*questions_of(splits["train"], max_facts)}
    for split in judged:
        made[split] = exclude_questions(splits[split], seen, max_facts)
        seen.update(questions_of(splits[split], max_facts))
        counts = (sum(len(story.questions) for story in part[split]) for part in (splits, made))
        before, after = counts
        left_out[split] = before - after
    return made, left_out


def draw_separate(
    draw: Callable[[int], list[Story]], count: int, others: Collection[Asked], max_facts: int
) -> list[Story]:
    """Stories with `count` questions, none of which is among `others`; fewer where hardly any is
    another one.

    Args:
      draw: makes stories with so many questions; more begin as fewer do.
      count: of the questions.
      others: what may not be asked.
      max_facts: facts that are read before a question.
    """
    asked = count
    while True:
        stories = exclude_questions(draw(asked), others, max_facts)
        missing = count - sum(len(story.questions) for story in stories)
        if missing <= 0 or asked >= _MOST_DRAWN * count:
            return first_questions(stories, count)
        asked += 2 * missing


def simulate_splits(
    play: Callable[[int, str, int], list[Story]],
    tasks: Iterable[int],
    questions: Mapping[str, int],
    max_facts: int | None,
) -> dict[str, list[Story]]:
    """The splits of simulated stories; the last stories for training validate.

    Args:
      play: makes the stories of (task, "train" or "test", number of questions).
      tasks: their numbers.
      questions: of each task, for "train" and "test".
      max_facts: facts that are read before a question; no test question is trained on then. None:
        some may be.

    Raises:
      UserError: a task has too few stories to validate on.
    """
    splits: dict[str, list[Story]] = {"train": [], "validation": [], "test": []}
    for task in tasks:
        train, validation = split_validation(play(task, "train", questions["train"]))
        if not validation:
            raise UserError(
                f"`train_questions`={questions['train']}: task {task} needs more, for one story to"
                " train on and one to validate on."
            )
        draw = functools.partial(play, task, "test")
        if max_facts is None:
            test = draw(questions["test"])
        else:
            asked = {*questions_of([*train, *validation], max_facts)}
            test = draw_separate(draw, questions["test"], asked, max_facts)
        for split, stories in (("train", train), ("validation", validation), ("test", test)):
            splits[split] += stories
    return splits


def _left(story: Story, others: Collection[Asked], max_facts: int) -> Story:
    kept = [
        number
        for number, asked in enumerate(questions_of([story], max_facts))
        if asked not in others
    ]
    if len(kept) == len(story.questions):
        return story
    return dataclasses.replace(
        story,
        questions=[story.questions[number] for number in kept],
        answers=[story.answers[number] for number in kept],
        positions=[story.positions[number] for number in kept],
        supporting=[story.supporting[number] for number in kept],
    )


def _words(sentence: str) -> str:
    return " ".join(_NO_WORD.sub("", sentence.lower()).split())
