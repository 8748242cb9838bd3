"""bAbI's archive and its format: what is read, and what is refused by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.problems.babi.archive import TEST, TRAIN, many_stories, write_archive
from ut_tf.errors import UserError
from ut_tf.problems.babi.problem import BabiQA
from ut_tf.problems.babi.stories import Story, parse_stories, split_validation


def test_validation_takes_whole_stories_with_a_tenth_of_the_questions() -> None:
    stories = [Story(1, questions=["q"] * count) for count in (5, 5, 5, 3, 1, 1)]
    train, validation = split_validation(stories)
    assert [len(story.questions) for story in validation] == [1, 1]
    assert train + validation == stories
    assert split_validation(stories[:1]) == (stories[:1], [])


def test_questions_are_no_facts_and_answers_are_lower_case() -> None:
    (story,) = parse_stories(
        ["1 Mary moved.", "2 Where? \tThe Hall\t1", "3 John left.", "4 Who?\tjohn\t3"], 4, "file"
    )
    assert story == Story(
        4,
        ["Mary moved.", "John left."],
        ["Where?", "Who?"],
        ["the hall", "john"],
        [1, 2],
        [[1], [3]],
    )


def test_supporting_facts_may_be_absent() -> None:
    lines = [
        "1 Mary moved.",
        "2 John left.",
        "3 Where?\thall\t2 1",
        "4 Who?\tjohn",
        "5 Why?\ttired\t",
    ]
    (story,) = parse_stories(lines, 20, "file")
    assert story.supporting == [[2, 1], [], []]


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (["Mary moved."], 1),
        (["1 Mary moved.", "3 John left."], 2),
        (["1 Mary moved.", ""], 2),
        (["1 Mary moved.", "2 \tkitchen\t1"], 2),
        (["1 Mary moved.", "2 Where?\tkitchen\t2"], 2),
        (["1 Mary moved.", "2 Where?\tkitchen\t1,2"], 2),
    ],
)
def test_a_malformed_line_is_named(lines: list[str], number: int) -> None:
    with pytest.raises(UserError, match=rf"^qa1\.txt, line {number}: .* not in bAbI's format"):
        list(parse_stories(lines, 1, "qa1.txt"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"en/qa1_x_train.txt": TRAIN}, r"no file en/qa1_\*_test\.txt"),
        ({"en/qa1_x_train.txt": "", "en/qa1_x_test.txt": TEST}, r"qa1_x_train\.txt has no"),
        (
            {"en/qa1_x_train.txt": "1 Mary\n7 John\n", "en/qa1_x_test.txt": TEST},
            r"qa1_x_train\.txt, line 2",
        ),
    ],
)
def test_an_archive_with_holes_is_named_with_the_file(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    archive = write_archive(tmp_path, files)
    with pytest.raises(UserError, match=message) as error:
        BabiQA((1,), "1k").prepare(tmp_path / "data", tmp_path)
    assert str(archive) in str(error.value)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_cut_off_archive_is_named(tmp_path: Path, kept: float) -> None:
    archive = write_archive(
        tmp_path, {f"en/qa1_{name}.txt": many_stories(2000) for name in ("x_train", "x_test")}
    )
    content = archive.read_bytes()
    archive.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(UserError) as error:
        BabiQA((1,), "1k").prepare(tmp_path / "data", tmp_path)
    assert str(archive) in str(error.value)
