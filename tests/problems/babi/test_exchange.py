"""Exchanged words: stories stay consistent, answers stay right, and only training changes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.babi.archive import TEST, TRAIN, many_stories, write_archive
from ut_tf.data.text.sentences import sentences
from ut_tf.data.text.vocabulary import WordVocabulary, read_symbols
from ut_tf.errors import UserError
from ut_tf.problems.babi.exchange import KINDS, WordExchange
from ut_tf.problems.babi.problem import BabiQA
from ut_tf.problems.babi.simulator.tasks import simulate_lines
from ut_tf.problems.babi.stories import Story, parse_stories, split_validation
from ut_tf.symbols import FIRST_SYMBOL_ID

STEPS = {"n": (0, 1), "e": (1, 0), "s": (0, -1), "w": (-1, 0)}
DIRECTIONS = {"north": "n", "east": "e", "south": "s", "west": "w"}


def exchanged_examples(problem: BabiQA, data_dir: Path, epoch: int) -> list[tuple[list[str], str]]:
    """The rows of each training example of an epoch, in words, and its answer."""
    words, answers = problem.vocab_files(data_dir)
    vocabulary, classes = WordVocabulary(words), read_symbols(answers)
    table = problem.examples("train", data_dir, seed=3, epoch=epoch)
    features = table.batch(tf.range(len(table)))
    return [
        ([vocabulary.decode(row) for row in rows if row.any()], classes[answer])
        for rows, answer in zip(
            features["inputs"].numpy(), features["targets"].numpy(), strict=True
        )
    ]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks 1, 16 and 19 from simulated stories, as an archive."""
    folder = tmp_path_factory.mktemp("exchange")
    files = {}
    for task in (1, 16, 19):
        lines = "\n".join(simulate_lines(task, 60))
        files |= {f"en/qa{task}_x_train.txt": lines + "\n", f"en/qa{task}_x_test.txt": lines + "\n"}
    write_archive(folder, files)
    BabiQA((1, 16, 19), "1k").prepare(folder / "data", folder)
    return folder


def test_exchanged_stories_of_movements_have_the_answers_that_they_tell(simulated: Path) -> None:
    problem = BabiQA((1,), "1k", exchange_words=True)
    problem.prepare(simulated / "data", simulated)
    seen = set()
    for epoch in range(3):
        for rows, answer in exchanged_examples(problem, simulated / "data", epoch):
            *facts, question = rows
            person = question.split()[-1]
            last = [fact for fact in facts if fact.split()[0] == person][-1]
            assert last.split()[-1] == answer
            seen.add((person, answer))
    assert len(seen) == 4 * 6


@pytest.mark.slow
def test_exchanged_paths_lead_where_they_say(simulated: Path) -> None:
    problem = BabiQA((19,), "1k", exchange_words=True)
    problem.prepare(simulated / "data", simulated)
    checked = 0
    for rows, answer in exchanged_examples(problem, simulated / "data", 1):
        *facts, question = rows
        offsets: dict[tuple[str, str], Any] = {}
        for fact in facts:
            there, direction, here = (fact.split()[number] for number in (1, 3, 6))
            step = np.array(STEPS[DIRECTIONS[direction]])
            offsets |= {(here, there): step, (there, here): -step}
        start, end = question.split()[6], question.split()[-1]
        steps = [STEPS[letter] for letter in answer.split(",")]
        rooms = {room for pair in offsets for room in pair}
        ways = [
            (offsets[start, middle], offsets[middle, end])
            for middle in rooms
            if (start, middle) in offsets and (middle, end) in offsets
        ]
        assert any(
            all(np.array_equal(a, b) for a, b in zip(way, steps, strict=True)) for way in ways
        )
        checked += 1
    assert checked == 54


def test_an_epoch_is_decided_by_its_seed_and_validation_stays(simulated: Path) -> None:
    data_dir = simulated / "data"
    problem, plain = (BabiQA((1, 16, 19), "1k", exchange_words=one) for one in (True, False))
    first, again, later = (exchanged_examples(problem, data_dir, epoch) for epoch in (0, 0, 1))
    assert first == again and sorted(map(str, first)) != sorted(map(str, later))
    for split in ("validation", "test"):
        tables = [one.examples(split, data_dir) for one in (problem, plain)]
        batches = [table.batch(tf.range(len(table))) for table in tables]
        for name, values in batches[0].items():
            np.testing.assert_array_equal(values, batches[1][name])


def test_every_task_has_kinds_whose_things_are_exchanged_one_for_one() -> None:
    for task, kinds in KINDS.items():
        forms = [form for kind in kinds for thing in kind.things for form in {*thing}]
        assert len(forms) == len({*forms}), task
        words = sorted({*forms})
        exchange = WordExchange.drawn(np.full(500, task), words, words, seed=0, epoch=0)
        for row in exchange.word_ids:
            assert sorted(row) == list(range(FIRST_SYMBOL_ID + len(words)))
        assert (exchange.classes >= 0).all() and len({*exchange.numbers.tolist()}) > 100
        assert WordExchange.drawn(np.array([task]), words, words, seed=-1, epoch=0).numbers[0] > 0
    turned = KINDS[19][1]
    assert len({*turned.orders}) == 8
    for order, number in itertools.product(turned.orders, range(4)):
        assert (order[number] - order[(number + 2) % 4]) % 4 == 2


def test_known_are_test_questions_that_an_exchange_makes_of_a_training_question(
    tmp_path: Path,
) -> None:
    trained = "1 John moved to the garden.\n2 Where is John?\tgarden\t1\n" * 20
    asked = [
        "1 Mary went to the kitchen.\n2 Where is Mary?\tkitchen\t1\n",
        # The one who moved is not the one who is asked about.
        "1 Mary went to the kitchen.\n2 Where is John?\tkitchen\t1\n",
        "1 Mary went to the moon.\n2 Where is Mary?\tmoon\t1\n",
    ]
    write_archive(tmp_path, {"en/qa1_x_train.txt": trained, "en/qa1_x_test.txt": "".join(asked)})
    problem = BabiQA((1,), "1k", exchange_words=True, disjoint_splits=False)
    problem.prepare(tmp_path / "data", tmp_path)
    assert problem.exchanges_of_training("test", tmp_path / "data") == [True, False, False]
    assert problem.exchanges_of_training("validation", tmp_path / "data") == [True, True]


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


def test_a_long_line_takes_no_longer_by_its_square() -> None:
    digits = "9" * 300_000
    assert sentences(f"{digits}\t") == []
    assert sentences(f"{digits} . {digits}?\tkitchen\t1") == [
        f"{digits} .",
        f"{digits}?\tkitchen\t1",
    ]
    assert sentences("a.\t" * 30_000 + "\nx") == ["a."] * 30_000 + ["x"]


def test_an_answer_that_nobody_writes_keeps_its_story(tmp_path: Path) -> None:
    lines = (
        "1 Mary took the milk there.\n2 Mary took the apple there.\n"
        "3 What is Mary carrying?\tmilk,apple\t1 2\n"
    )
    write_archive(tmp_path, {"en/qa8_x_train.txt": lines * 30, "en/qa8_x_test.txt": lines})
    problem = BabiQA((8,), "1k", exchange_words=True, disjoint_splits=False)
    problem.prepare(tmp_path / "data", tmp_path)
    told = exchanged_examples(problem, tmp_path / "data", 0)
    assert {answer for _, answer in told} == {"milk,apple"}
    kept = [rows for rows, _ in told if "milk" in rows[0] and "apple" in rows[1]]
    assert len(kept) == len(told)
