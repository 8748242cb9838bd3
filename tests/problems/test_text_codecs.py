"""Text forms of digit strings and stories: what is read becomes the very features of training, and
outputs become words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.problems.babi.archive import TRAIN as TEST
from tests.problems.babi.archive import many_stories, write_archive
from ut_tf import registry
from ut_tf.data.problem import Problem
from ut_tf.data.text.codec import TextCodec
from ut_tf.errors import UserError
from ut_tf.problems.algorithmic.problem import Algorithmic
from ut_tf.problems.babi.problem import BabiQA
from ut_tf.problems.babi.story_questions import StoryQuestions
from ut_tf.problems.catalogue import PROBLEMS

TRAIN = (
    "".join(f"{number} Mary and John moved to the room{number}.\n" for number in range(1, 8))
    + "8 Where's Mary? \troom7\t7\n"
)


def symbols_to_digits(row: Any, base: int) -> str:
    return "".join(str(int(one) - 2) if one < base + 2 else "+" for one in row if one > 1)


@pytest.mark.parametrize(("operation", "base"), [("copy", 2), ("reverse", 10), ("addition", 10)])
def test_digits_become_the_features_of_training_and_answers_are_right(
    operation: str, base: int
) -> None:
    problem = Algorithmic(operation, base, max_length=12, test_examples=60)
    codec = problem.text_codec(Path())
    examples = problem.examples("test", Path()).batch(tf.range(60))
    written = [symbols_to_digits(row, base) for row in examples["inputs"].numpy()]
    if operation == "addition":
        written = ["+".join(one[::-1] for one in line.split("+")) for line in written]
        results = [
            np.base_repr(sum(int(one, base) for one in line.split("+")), base) for line in written
        ]
    else:
        results = [line[::-1] if operation == "reverse" else line for line in written]
    texts = [line for (line,) in codec.read(written, "file")]
    np.testing.assert_array_equal(
        codec.encode(tf.constant(texts))["inputs"], trimmed(examples["inputs"])
    )
    np.testing.assert_array_equal(
        codec.encode_targets(tf.constant(results)), trimmed(examples["targets"])
    )
    assert [one.decode() for one in codec.decode(examples["targets"]).numpy()] == results


def trimmed(ids: Any) -> Any:
    return ids[:, : int(tf.reduce_max(tf.math.count_nonzero(ids, axis=1)))]


def test_blanks_and_zeros_in_front_mean_nothing_and_foreign_symbols_are_left_out() -> None:
    codec = Algorithmic("addition").text_codec(Path())
    texts = tf.constant([b" 1 2+ 3\r", b"0012+003", b"\xff1x2+3", b"0+00", b""])
    assert codec.encode(texts)["inputs"].numpy().tolist() == [
        *[[4, 3, 12, 5, 1]] * 3,
        [2, 12, 2, 1, 0],
        [1, 0, 0, 0, 0],
    ]


def test_an_output_ends_at_the_first_end_or_padding() -> None:
    codec = Algorithmic("copy").text_codec(Path())
    outputs = tf.constant([[3, 4, 1, 5], [3, 0, 5, 5], [1, 1, 1, 1], [5, 5, 5, 5]])
    assert codec.decode(outputs).numpy().tolist() == [b"12", b"1", b"", b"3333"]
    assert codec.tokens({"inputs": tf.constant([[3, 1, 0]])}).numpy().tolist() == [
        [b"1", b"<end>", b""]
    ]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("babi")
    files = {"qa1_x_train.txt": TRAIN + many_stories(20), "qa1_x_test.txt": TEST}
    write_archive(folder, {f"en/{name}": text for name, text in files.items()})
    for max_facts in (70, 2):
        BabiQA(1, "1k", max_facts=max_facts).prepare(folder / "data", folder)
    return folder / "data"


@pytest.fixture(
    params=[
        ("facts", 70),
        pytest.param(("tokens", 70), marks=pytest.mark.slow),
        pytest.param(("facts", 2), marks=pytest.mark.slow),
        pytest.param(("tokens", 2), marks=pytest.mark.slow),
    ],
    ids=lambda param: f"{param[0]}{param[1]}",
)
def problem(request: pytest.FixtureRequest) -> StoryQuestions:
    form, max_facts = request.param
    return BabiQA(1, "1k", form=form, max_facts=max_facts)


def codec_of(problem: StoryQuestions, data_dir: Path) -> TextCodec:
    return problem.text_codec(problem.vocab_files(data_dir)[0].parent)


def test_stories_become_the_features_of_training_and_classes_their_answers(
    problem: StoryQuestions, data_dir: Path
) -> None:
    codec = codec_of(problem, data_dir)
    pairs = list(codec.read(TEST.splitlines(), "test.txt"))
    examples = problem.examples("test", data_dir)
    batch = examples.batch(tf.range(len(examples)))
    graph = tf.function(codec.encode, input_signature=[tf.TensorSpec([None], tf.string)] * 2)
    np.testing.assert_array_equal(
        *same_size(graph(*map(tf.constant, zip(*pairs, strict=True)))["inputs"], batch["inputs"])
    )
    answers = [line.split("\t")[1].strip() for line in TEST.splitlines() if "\t" in line]
    assert [one.decode() for one in codec.decode(batch["targets"]).numpy()] == answers
    assert (
        codec.encode_targets(tf.constant([f" {one.title()} " for one in answers])).numpy().tolist()
        == batch["targets"].numpy().tolist()
    )
    assert codec.encode_targets(tf.constant(["nowhere at all"])).numpy().tolist() == [-1]


def same_size(*arrays: Any) -> list[Any]:
    """The arrays, padded with zeros to the largest of their sizes: padding is no feature."""
    shape = np.max([array.shape for array in arrays], axis=0)
    return [
        np.pad(array, [(0, size - had) for size, had in zip(shape, array.shape, strict=True)])
        for array in arrays
    ]


def test_questions_without_answers_are_read_and_stories_may_be_empty(data_dir: Path) -> None:
    codec = codec_of(BabiQA(1, "1k", form="tokens"), data_dir)
    lines = ["1 Mary left.", "2 Where is Mary?", "3 Where is John?\t", "", "1 Who is Zoe? \thall"]
    pairs = list(codec.read(lines, "f"))
    assert pairs == [
        ("Mary left.", "Where is Mary?"),
        ("Mary left.", "Where is John?"),
        ("", "Who is Zoe?"),
    ]
    encoded = codec.encode(tf.constant(["  \n!\n", ""]), tf.constant(["where", "?"]))
    assert encoded["inputs"].numpy().tolist()[1] == [2, 1]
    assert codec.tokens(encoded).numpy().tolist() == [
        [b"where", b"<end>"],
        [b"<unknown>", b"<end>"],
    ]
    assert list(codec.read(["Mary left. Where is Mary?"], "f")) == pairs[:1]
    for line in ("2 Mary", "1 \thall"):
        with pytest.raises(UserError, match=r"^f, line 1: .*bAbI's format"):
            list(codec.read([line], "f"))


def test_the_text_of_an_input_is_read_as_the_same_input() -> None:
    addition = Algorithmic("addition", 10, max_length=12).text_codec(Path())
    texts = ["12+3", "705+41"]
    features = addition.encode(tf.constant(texts))
    tokens = [[text.decode() for text in row if text] for row in addition.tokens(features).numpy()]
    assert [addition.input_text(row) for row in tokens] == texts
    assert addition.target_tokens(tf.constant([[3, 12, 1, 0]])).numpy().tolist() == [
        [b"1", b"+", b"<end>", b""]
    ]


def test_every_name_makes_a_problem_that_knows_its_name() -> None:
    for name in PROBLEMS:
        problem = registry.problems.get(name)()
        assert isinstance(problem, Problem)
        assert problem.name == name
        sets = problem.evaluation_sets()
        assert sets and len({(item.name, item.method) for item in sets}) == len(sets)
        assert registry.problems.describe(name)


def test_the_catalogue_knows_which_arguments_are_files() -> None:
    for name, entry in PROBLEMS.items():
        declared = registry.problems.get(name).func.file_arguments  # type: ignore[attr-defined]
        assert entry.file_arguments == declared, name
    assert registry.problems.file_arguments("translate_files")["dev_target_files"] == "files"


def test_every_problem_is_in_one_group_that_says_what_it_is() -> None:
    groups = registry.problems.groups()
    built_in = [group for group in groups if group.name]
    assert sorted(name for group in built_in for name in group.names) == sorted(PROBLEMS)
    assert all(group.names and group.description for group in built_in)
    (babi,) = (group for group in groups if group.name == "babi")
    assert {"babi_qa", "babi_qa_1k", "babi_qa_task20_10k"} <= {*babi.names}
    assert len(babi.names) == 84


def test_only_the_last_facts_are_kept(data_dir: Path) -> None:
    codec = codec_of(BabiQA(1, "1k", max_facts=2), data_dir)
    ((story, question),) = codec.read(TRAIN.splitlines(), "train.txt")
    tokens = (
        codec.tokens(codec.encode(tf.constant([story]), tf.constant([question]))).numpy().tolist()
    )
    assert tokens == [
        [b"mary and john moved to the room6", b"mary and john moved to the room7", b"wheres mary"]
    ]
