"""bAbI: from the archive to examples, and what is said where the archive is not as expected."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.problems.babi.archive import TEST, TRAIN, many_stories, write_archive
from ut_tf.data.text.vocabulary import UNKNOWN, WordVocabulary, read_symbols
from ut_tf.errors import UserError
from ut_tf.problems.babi.problem import BabiQA

ONE_TASK = {
    "en/qa1_single-supporting-fact_train.txt": TRAIN,
    "en/qa1_single-supporting-fact_test.txt": TEST,
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks 1 and 2, prepared once; task 2 has thirty stories."""
    folder = tmp_path_factory.mktemp("babi")
    files = {
        **ONE_TASK,
        "en/qa2_two-supporting-facts_train.txt": many_stories(30),
        "en/qa2_two-supporting-facts_test.txt": TEST,
    }
    write_archive(folder, files)
    for max_facts in (0, 2):
        BabiQA((1, 2), "1k", max_facts=max_facts).prepare(folder / "data", folder)
    return folder / "data"


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive of task 1 and, in data, what it was prepared to."""
    folder = tmp_path_factory.mktemp("one_task")
    write_archive(folder, ONE_TASK)
    BabiQA((1,), "1k").prepare(folder / "data", folder)
    return folder


@pytest.fixture(scope="module")
def trained_on(prepared_once: Path) -> list[tuple[list[str], str, int]]:
    """The training examples of that folder."""
    return told(BabiQA((1,), "1k"), "train", prepared_once / "data")


@pytest.fixture
def prepared(prepared_once: Path, tmp_path: Path) -> Path:
    """A copy of that folder, to damage."""
    return Path(shutil.copytree(prepared_once, tmp_path / "prepared"))


def told(problem: BabiQA, split: str, data_dir: Path) -> list[tuple[list[str], str, int]]:
    """Each example in words: its rows, its answer, its task."""
    words, answers = problem.vocab_files(data_dir)
    vocabulary, classes = WordVocabulary(words), read_symbols(answers)
    return [
        (
            [vocabulary.decode(row) for row in example["inputs"]],
            classes[example["targets"]],
            int(example["task"]),
        )
        for example in problem.dataset(split, data_dir).as_numpy_iterator()
    ]


def test_facts_are_the_statements_before_the_question_in_its_story(data_dir: Path) -> None:
    examples = [
        example for example in told(BabiQA((1, 2), "1k"), "train", data_dir) if example[2] == 1
    ]
    assert sorted(examples) == [
        (
            [
                *("mary moved to the bathroom", "john went to the hallway"),
                *("daniel went back to the hallway", "where is john"),
            ],
            "hallway",
            1,
        ),
        (
            ["mary moved to the bathroom", "john went to the hallway", "where is mary"],
            "bathroom",
            1,
        ),
    ]


def test_validation_is_the_last_stories_of_each_task(data_dir: Path) -> None:
    validation = told(BabiQA((1, 2), "1k"), "validation", data_dir)
    assert validation == [
        (
            ["john took the apple there", "john took the football", "what is john carrying"],
            "apple,football",
            1,
        ),
        *(
            (["mary moved to room" + str(number), "where is mary"], f"room{number}", 2)
            for number in (27, 28, 29)
        ),
    ]
    assert len(told(BabiQA((1, 2), "1k"), "train", data_dir)) == 2 + 27


def test_examples_know_the_number_of_their_supporting_facts(data_dir: Path) -> None:
    problem = BabiQA((1, 2), "1k")
    counts = [
        int(example["supporting_facts"]) for example in problem.dataset("validation", data_dir)
    ]
    assert counts == [2, 1, 1, 1]


def test_text_pairs_are_the_stories_before_each_question_and_the_answers(data_dir: Path) -> None:
    sources, answers = BabiQA((1, 2), "1k").text_pairs("validation", data_dir)
    assert (
        sources[0]
        == "John took the apple, there.\\nJohn took the football.\tWhat is John carrying?"
    )
    assert sources[1] == "Mary moved to room27.\tWhere is Mary?"
    assert answers == ["apple,football", "room27", "room28", "room29"]
    codec = BabiQA((1, 2), "1k").text_codec(BabiQA((1, 2), "1k").vocab_files(data_dir)[0].parent)
    columns = [source.replace("\\n", "\n").split("\t") for source in sources]
    encoded = codec.encode(*(tf.constant(column) for column in zip(*columns, strict=True)))[
        "inputs"
    ].numpy()
    for row, example in zip(
        encoded, BabiQA((1, 2), "1k").dataset("validation", data_dir), strict=True
    ):
        facts = example["inputs"].numpy()[:, : row.shape[1]]
        assert row[: len(facts)].tolist() == facts.tolist()
    with pytest.raises(UserError, match="has no split 'dev'"):
        BabiQA((1, 2), "1k").text_pairs("dev", data_dir)


def test_spec_counts_the_words_and_answers_of_all_splits(data_dir: Path) -> None:
    problem = BabiQA((1, 2), "1k")
    spec = problem.spec(data_dir)
    words, answers = (read_symbols(path) for path in problem.vocab_files(data_dir))
    assert words[0] == UNKNOWN
    assert words[1:] == sorted({*words[1:]})
    assert {"travelled", "football", "room29"} <= {*words}
    assert (spec.inputs, spec.targets, spec.max_words) == ("facts", "class", 6)
    assert (spec.input_vocab_size, spec.target_vocab_size) == (len(words) + 2, len(answers))
    assert answers == sorted(
        {
            *("bathroom", "hallway", "apple,football", "office"),
            *(f"room{number}" for number in range(30)),
        }
    )


def test_tokens_are_the_words_of_the_facts_and_the_question(data_dir: Path) -> None:
    facts, tokens = (BabiQA((1, 2), "1k", form, max_facts=2) for form in ("facts", "tokens"))
    assert tokens.spec(data_dir).inputs == "tokens"
    for rows, flat in zip(
        facts.dataset("train", data_dir), tokens.dataset("train", data_dir), strict=True
    ):
        assert flat["inputs"].numpy().tolist() == [
            *(word for word in rows["inputs"].numpy().ravel() if word),
            1,
        ]
        assert [flat[name] for name in ("targets", "task", "supporting_facts")] == [
            rows[name] for name in ("targets", "task", "supporting_facts")
        ]
    lengths = tokens.examples("train", data_dir).lengths.tolist()
    assert lengths == [len(example["inputs"]) for example in tokens.dataset("train", data_dir)]


def test_tasks_are_reported_for_themselves_and_summed_up() -> None:
    problem = BabiQA()
    assert [(item.split, item.method, item.group_by) for item in problem.evaluation_sets()] == [
        ("test", "classify", "task")
    ]
    assert [item.ponder_by for item in problem.evaluation_sets()] == ["supporting_facts"]
    assert [(item.split, item.group_by) for item in problem.validation_sets()] == [
        ("validation", "task")
    ]
    assert problem.selection_metric == ("error", "min")
    summary = problem.summarize(
        {"error": 50.0, "error/1": 0.0, "error/2": 5.0, "error/3": 7.0, "loss": 3.0}
    )
    assert summary == {"mean_error": 4.0, "failed_tasks": 1.0}
    assert problem.summarize({"loss": 1.0}) == {}


def test_preparing_goes_on_where_it_was_stopped(prepared: Path) -> None:
    problem, data = BabiQA((1,), "1k"), prepared / "data"
    before = told(problem, "test", data)
    (summary,) = data.rglob("summary.json")
    summary.unlink()
    with pytest.raises(UserError, match="is not prepared in"):
        BabiQA((1,), "1k").dataset("test", data)
    problem.prepare(data, prepared)
    assert told(BabiQA((1,), "1k"), "test", data) == before


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        pytest.param("words.txt", _shorten, marks=pytest.mark.slow),
        pytest.param("answers.txt", _empty, marks=pytest.mark.slow),
        pytest.param("summary.json", _empty, marks=pytest.mark.slow),
        pytest.param("*train.tfrecord*", _shorten, marks=pytest.mark.slow),
        pytest.param("*train.tfrecord*", _empty, marks=pytest.mark.slow),
        ("*train.tfrecord*", Path.unlink),
        pytest.param("dataset_info.json", _shorten, marks=pytest.mark.slow),
        pytest.param("features.json", _shorten, marks=pytest.mark.slow),
    ],
)
def test_damaged_data_is_named_and_prepared_again_once_it_is_deleted(
    prepared: Path, trained_on: list[Any], pattern: str, damage: Any
) -> None:
    data = prepared / "data"
    (damaged,) = data.rglob(pattern)
    damage(damaged)
    with pytest.raises(UserError, match=r"is damaged") as caught:
        use(data, prepared)
    folder = str(caught.value).split(" is damaged")[0]
    shutil.rmtree(folder)
    # As if a process had been killed while it wrote the records.
    (Path(folder) / "incomplete.ABCDEF_1.1.0").mkdir(parents=True)
    use(data, prepared)
    assert told(BabiQA((1,), "1k"), "train", data) == trained_on
    assert not [*Path(folder).glob("incomplete*")]


def use(data: Path, tmp_dir: Path) -> None:
    """Does what a command does."""
    problem = BabiQA((1,), "1k")
    problem.prepare(data, tmp_dir)
    problem.spec(data)
    problem.examples("train", data)


def test_another_archive_than_the_one_prepared_from_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_archive(tmp_path, ONE_TASK)
    use(tmp_path / "data", tmp_path)
    assert capsys.readouterr().err.count("is not the published archive") == 1
    use(tmp_path / "data", tmp_path)
    assert capsys.readouterr().err == ""
    write_archive(tmp_path, {**ONE_TASK, "en/qa1_single-supporting-fact_test.txt": many_stories(2)})
    use(tmp_path / "data", tmp_path)
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1
    assert "prepared earlier from other files" in warning
    assert str(next((tmp_path / "data").rglob("summary.json")).parent) in warning


def test_what_cannot_be_is_refused() -> None:
    for tasks in ((), (0,), (21,)):
        with pytest.raises(UserError, match="expected numbers from 1 to 20"):
            BabiQA(tasks)
    with pytest.raises(UserError, match="expected 1k or 10k"):
        BabiQA(size="100k")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="expected facts or tokens"):
        BabiQA(form="words")  # type: ignore[arg-type]


def test_simulated_stories_are_added_to_the_training_split_alone(tmp_path: Path) -> None:
    write_archive(tmp_path, ONE_TASK)
    plain = BabiQA((1,), "1k")
    mixed = BabiQA((1,), "1k", simulated_tasks=1, simulated_questions=7)
    splits, others = mixed.stories(tmp_path), plain.stories(tmp_path)
    assert {name: splits[name] for name in ("validation", "test")} == {
        name: others[name] for name in ("validation", "test")
    }
    official = len(others["train"])
    assert splits["train"][:official] == others["train"]
    assert sum(len(story.questions) for story in splits["train"][official:]) == 7
    for problem in (plain, mixed):
        problem.prepare(tmp_path / "data", tmp_path)
    assert len(mixed.examples("train", tmp_path / "data")) == 7 + len(
        plain.examples("train", tmp_path / "data")
    )
    assert mixed.data_note(tmp_path / "data").endswith("stories added to task 1")
