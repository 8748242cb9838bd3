"""Every problem: seed and epoch decide training alone, batches have every example, and
nothing that is held out is trained on: duplicates, one source with other targets, other blanks,
exchanged words, short inputs that are drawn again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.problems.agreement.test_problem import table_line, write_table
from tests.problems.babi.archive import write_archive
from ut_tf import registry
from ut_tf.config.training import TrainingConfig
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.pipeline import train_batches
from ut_tf.data.problem import Problem
from ut_tf.data.split_of import belong, exclude_trained, same_text, separate_lines
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import chosen_sets
from ut_tf.factories import make_problem
from ut_tf.problems import catalogue
from ut_tf.problems.agreement.problem import SvaLanguageModeling, SvaNumberPrediction
from ut_tf.problems.algorithmic.problem import Algorithmic
from ut_tf.problems.babi.problem import BabiQA
from ut_tf.problems.babi.simulator.supporting_facts import SimulatedBabi
from ut_tf.problems.babi.simulator.tasks import SimulatedTasks, simulate_lines
from ut_tf.problems.lte.problem import LearningToExecute
from ut_tf.problems.own_files.classify import ClassifyFiles
from ut_tf.problems.own_files.language_model import LmFiles
from ut_tf.problems.own_files.puzzles import AlignedFiles, PairsFiles
from ut_tf.problems.reasoning.chomsky import Chomsky
from ut_tf.problems.reasoning.dyck import Dyck
from ut_tf.problems.reasoning.facts import Facts
from ut_tf.problems.reasoning.futoshiki import Futoshiki
from ut_tf.problems.reasoning.groups import GroupProducts
from ut_tf.problems.reasoning.mazes import Mazes
from ut_tf.problems.reasoning.p_hop import PHop
from ut_tf.problems.reasoning.prefix_sums import Parity, PrefixSums
from ut_tf.problems.reasoning.sudoku import Sudoku
from ut_tf.problems.translation.own_files import TranslateFiles

# Divided by those who published them.
# Splits by groups of a folder that somebody else divided: the last.
OFFICIAL = ("TranslateWmt14", "TranslateMulti30k", "LambadaLM", "LambadaRC", "PuzzleFolder")
WORDS = [f"word{n}" for n in range(9)]
DRAWS = random.Random(0)


def sentences(count: int, length: int = 2) -> list[str]:
    """Sentences many of which stand more than once, with other blanks."""
    return [DRAWS.choice([" ", "  "]).join(DRAWS.choices(WORDS, k=length)) for _ in range(count)]


def classify(folder: Path) -> Problem:
    lines = [f"{DRAWS.choice('ab')}\t{text}\n" for text in sentences(150)]
    (folder / "own.tsv").write_text("".join(lines))
    return ClassifyFiles(str(folder / "own.tsv"))


def puzzles(folder: Path, kind: Callable[..., Problem]) -> Problem:
    asked = ["".join(DRAWS.choices("123", k=3)) for _ in range(150)]
    (folder / "puzzles.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in asked))
    return kind(str(folder / "puzzles.tsv"))


def translate(folder: Path) -> Problem:
    # Some sources have several translations.
    pairs = [f"{a}\t{b}\n" for a, b in zip(sentences(400, 3), sentences(400, 3), strict=True)]
    (folder / "own.tsv").write_text("".join(pairs))
    return TranslateFiles(str(folder / "own.tsv"))


def lm(folder: Path) -> Problem:
    # Some lines are so common that training needs them.
    lines = [line for text in sentences(150) for line in (text, "}")]
    (folder / "own.txt").write_text("\n".join(lines))
    return LmFiles(str(folder / "own.txt"), window=10_000)


def babi(folder: Path, **options: Any) -> Problem:
    files = {}
    for task in (4, 19, 20):
        for part, count in (("train", 120), ("test", 20)):
            lines = simulate_lines(task, count, seed=part)
            files[f"en/qa{task}_x_{part}.txt"] = "\n".join(lines) + "\n"
    write_archive(folder, files)
    return BabiQA((4, 19, 20), "1k", **options)


def agreement(folder: Path, kind: type[Problem]) -> Problem:
    lines = []
    for _ in range(400):
        words, noun = sentences(1)[0].split(), DRAWS.choice(["key", "keys"])
        verb = {"key": ("is", "VBZ"), "keys": ("are", "VBP")}[noun]
        lines.append(table_line(" ".join([noun, *words, verb[0], "here"]), *verb, 1, 1))
    write_table(folder, lines)
    return kind()


PROBLEMS: dict[str, Callable[[Path], Problem]] = {
    "classify_files": classify,
    "aligned_files": lambda folder: puzzles(folder, AlignedFiles),
    "pairs_files": lambda folder: puzzles(folder, PairsFiles),
    "translate_files": translate,
    "lm_files": lm,
    "bAbI": babi,
    "bAbI, words exchanged": lambda folder: babi(folder, exchange_words=True),
    "bAbI, simulated": lambda folder: babi(
        folder, simulated_tasks=(4, 20), simulated_questions=100
    ),
    "simulated tasks": lambda _: SimulatedTasks((1, 4, 20), 200, 40),
    "babi_sim": lambda _: SimulatedBabi((1, 2), 4, 2, 300, 40),
    "agreement, words": lambda folder: agreement(folder, SvaLanguageModeling),
    "agreement, number": lambda folder: agreement(folder, SvaNumberPrediction),
    "copy": lambda _: Algorithmic("copy", 2, 8, 300, test_examples=100),
    "reverse": lambda _: Algorithmic("reverse", 10, 3, 300, test_examples=100),
    "addition": lambda _: Algorithmic("addition", 2, 9, 300, test_examples=100),
    "prefix sums": lambda _: PrefixSums(9, 300),
    "parity": lambda _: Parity(9, 300),
    "products": lambda _: GroupProducts("a5", 2, train_examples=300),
    "hops": lambda _: PHop(2, 8, train_examples=300),
    "facts": lambda _: Facts(2, train_examples=300),
    "hierarchy": lambda _: Chomsky("binary_addition", 9, train_examples=300),
    "futoshiki": lambda _: Futoshiki(4, 0, 100, 20, 20),
    "mazes": lambda _: Mazes(9, train_examples=300, test_examples=20),
    "brackets": lambda _: Dyck(9, 4, train_examples=300),
    "learning to execute": lambda _: LearningToExecute("copy", length=2, train_examples=50),
    "Sudoku": lambda _: Sudoku(4, 1, 0, 20, 5, 5),
}

# Stories like those of bAbI and babi_sim.
SLOW_SPLITS = ("bAbI, simulated", "simulated tasks")
# Those of the others come from the same parts.
QUICK_EPOCHS = (
    *("classify_files", "translate_files", "lm_files", "bAbI, words exchanged", "babi_sim"),
    *("agreement, words", "copy", "parity", "mazes", "Sudoku"),
)


def keys(problem: Problem, split: str, data: Path, epoch: int = 0) -> Iterator[bytes]:
    """What a model is asked in each example of a split; of running text each line."""
    table = problem.examples(split, data, seed=1, epoch=epoch)
    features = table.batch(tf.range(len(table)))
    name = "inputs" if "inputs" in features else "targets"
    rows = features[name].numpy()
    if isinstance(problem, LmFiles):
        ids = np.concatenate([row[row > 0] for row in rows])
        lines = np.split(ids, np.flatnonzero(ids == 1) + 1)
        yield from (line.tobytes() for line in lines if len(line))
        return
    for row in rows:
        flat = row[row.any(axis=-1)] if row.ndim > 1 else row[row > 0]
        if isinstance(problem, SvaLanguageModeling):
            # A sentence for validation ends with its verb.
            flat = flat[:4]
        yield flat.tobytes()


@pytest.fixture(scope="module", params=PROBLEMS)
def prepared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Problem, Path]:
    """Each problem, and where its data lies."""
    DRAWS.seed(7)
    folder = tmp_path_factory.mktemp("problem")
    problem, data = PROBLEMS[request.param](folder), folder / "data"
    problem.prepare(data, folder)
    return problem, data


@pytest.mark.parametrize(
    "prepared",
    [pytest.param(x, marks=[pytest.mark.slow] * (x in SLOW_SPLITS)) for x in PROBLEMS],
    indirect=True,
)
def test_nothing_that_is_held_out_is_trained_on(prepared: tuple[Problem, Path]) -> None:
    problem, data = prepared
    trained = {key for epoch in range(2) for key in keys(problem, "train", data, epoch)}
    # bAbI's and the table's tests are official.
    official = isinstance(problem, BabiQA | SvaLanguageModeling | SvaNumberPrediction)
    sets = {each.split for each in problem.evaluation_sets()} - ({"test"} if official else set())
    for split in {"validation", *sets}:
        judged = [*keys(problem, split, data)]
        assert judged and not trained.intersection(judged), split
    assert len(trained) > 10


def rows_of(table: ExampleTable) -> list[bytes]:
    """The example with each number, padding apart."""
    features = {name: values.numpy() for name, values in table.batch(tf.range(len(table))).items()}
    rows = zip(*(features[name] for name in sorted(features)), strict=True)
    return [b"|".join(bytes(part[part != 0]) for part in map(np.atleast_1d, row)) for row in rows]


@pytest.mark.parametrize(
    "prepared",
    [pytest.param(x, marks=[pytest.mark.slow] * (x not in QUICK_EPOCHS)) for x in PROBLEMS],
    indirect=True,
)
def test_seed_and_epoch_decide_training_alone_and_batches_have_every_example(
    prepared: tuple[Problem, Path],
) -> None:
    problem, data = prepared

    def drawn(split: str, seed: int, epoch: int) -> list[bytes]:
        return rows_of(problem.examples(split, data, seed=seed, epoch=epoch))

    made = [drawn("train", seed, epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert made[0] == drawn("train", 1, 0)
    assert len({str(one) for one in made}) == 4
    assert drawn("validation", 1, 2) == drawn("validation", 3, 4)
    training = TrainingConfig(batch_size=10_000, max_length=10_000)
    batches = train_batches(problem, data, training, 1, seed=2, epoch=1).as_numpy_iterator()
    targets = [row for batch in batches for row in batch["targets"][batch["weight"] > 0]]
    table = problem.examples("train", data, seed=2, epoch=1)
    every = table.batch(tf.range(len(table)))["targets"].numpy()
    assert Counter(bytes(row[row != 0]) for row in map(np.atleast_1d, targets)) == Counter(
        bytes(row[row != 0]) for row in map(np.atleast_1d, every)
    )


def digits(**options: Any) -> Algorithmic:
    return Algorithmic("copy", test_examples=60, long_test_examples=60, **options)


@pytest.mark.parametrize(
    ("make", "length", "possible", "count"),
    [
        (lambda **options: PrefixSums(32, **options), 4, 2**4, 200),
        (lambda **options: PrefixSums(32, **options), 9, 2**9, 200),
        # Nothing so long is trained on: each may be judged, but once.
        (lambda **options: PrefixSums(2, **options), 5, 2**5, 200),
        (lambda **options: PrefixSums(32, **options), 40, None, 200),
        (lambda **options: digits(base=10, **options), 3, 10**3, 60),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (lambda **options: digits(base=2, max_length=2, **options), 4, 2**4, 60),
                (
                    lambda **options: Algorithmic("addition", 2, test_examples=99, **options),
                    *(5, None, 99),
                ),
            )
        ),
    ],
)
def test_a_length_is_judged_by_inputs_that_differ(
    make: Callable[..., Problem], length: int, possible: int | None, count: int
) -> None:
    def judged(**options: Any) -> list[bytes]:
        table = make(**options).examples("test", Path(), seed=len(options), length=length)
        return [row.tobytes() for row in table.batch(tf.range(len(table)))["inputs"].numpy()]

    found = judged()
    assert len({*found}) == len(found) <= count
    if possible is not None:
        assert found == judged()
        symbols = round(possible ** (1 / length))
        every = np.indices([symbols] * length).reshape(length, -1).T + 2
        ends = np.ones([possible, int(isinstance(make(), Algorithmic))], int)
        rows = np.concatenate([every, ends], 1).astype(np.int32)
        trained_on = length <= make().max_length  # type: ignore[attr-defined]
        # The bits of prefix sums are divided as 1 and 2.
        content = rows - int(isinstance(make(), PrefixSums))
        rows = rows[belong(content, "test")] if trained_on else rows
        assert {*found} <= {row.tobytes() for row in rows}
        assert len(found) == min(count, len(rows))
    # A run of version 0.4 keeps its examples.
    assert len(judged(disjoint_splits=False)) >= count


@pytest.mark.slow
def test_a_length_without_inputs_is_left_out_as_long_as_another_has_some(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = PrefixSums(32)
    run: Any = SimpleNamespace(problem="prefix_sums_32", data_dir=Path())
    sets = chosen_sets(run, problem, (1, 2, 4, 8), None)
    assert [one.length for one in sets] == [4, 8]
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1 and "`lengths`=1,2 left out" in warning
    # All are trained on.
    assert [one.length for one in chosen_sets(run, problem, (1, 2), "train")] == [1, 2]
    with pytest.raises(UserError, match=r"no strings of 1 bit that belong to its test split"):
        chosen_sets(run, problem, (1, 2), None)
    for other in (Algorithmic("copy"), LearningToExecute("copy", length=2)):
        assert chosen_sets(run, other, (1, 6), None)[-1].length == 6


@pytest.mark.parametrize("name", ["copy", "bAbI, words exchanged", "lm_files", "agreement, number"])
def test_without_the_argument_some_of_it_is(name: str, tmp_path: Path) -> None:
    """The test above could fail."""
    DRAWS.seed(7)
    problem = PROBLEMS[name](tmp_path)
    made: dict[str, Any] = {
        "copy": lambda: Algorithmic("copy", 2, 8, 300, disjoint_splits=False),
        "bAbI, words exchanged": lambda: babi(tmp_path, exchange_words=True, disjoint_splits=False),
        "lm_files": lambda: LmFiles(
            str(tmp_path / "own.txt"), window=10_000, disjoint_splits=False
        ),
        "agreement, number": lambda: SvaNumberPrediction(disjoint_splits=False),
    }
    problem = made[name]()
    data = tmp_path / "data"
    problem.prepare(data, tmp_path)
    trained = {*keys(problem, "train", data)}
    assert trained.intersection(keys(problem, "validation", data))


def test_every_problem_that_splits_by_itself_is_among_these(tmp_path: Path) -> None:
    DRAWS.seed(7)
    covered = {type(make(tmp_path)).__name__ for make in PROBLEMS.values()}
    named = {entry.target.partition(":")[2] for entry in catalogue.PROBLEMS.values()}
    assert named == covered | {*OFFICIAL}


@pytest.mark.slow
def test_questions_of_the_official_files_are_not_among_simulated_ones(tmp_path: Path) -> None:
    plain, shares = babi(tmp_path, disjoint_splits=False), []
    plain.prepare(tmp_path / "data", tmp_path)
    for exclude in (True, False):
        problem = babi(
            tmp_path,
            simulated_tasks=20,
            simulated_questions=100,
            exclude_official=exclude,
            disjoint_splits=False,
        )
        problem.prepare(tmp_path / "data", tmp_path)
        table = problem.examples("train", tmp_path / "data")
        assert len(table) == len(plain.examples("train", tmp_path / "data")) + 100
        judged = {
            key
            for split in ("validation", "test")
            for key in told(problem, split, tmp_path / "data")
        }
        official = {*told(plain, "train", tmp_path / "data")}
        trained = {*told(problem, "train", tmp_path / "data")}
        shares.append(len(judged & (trained - official)))
    assert shares[0] == 0 < shares[1]


def told(problem: BabiQA, split: str, data: Path) -> list[str]:
    sources, _ = problem.text_pairs(split, data)
    return sources


def test_a_run_of_version_0_4_keeps_what_it_had(tmp_path: Path) -> None:
    names = {
        "babi_qa_task1_1k": {},
        "babi_sim": {},
        "algorithmic_copy_decimal40": {},
        "prefix_sums_32": {},
        "sva_number_prediction": {},
        "lm_files": {"source_files": ["a"]},
        "classify_files": {"source_files": ["a"]},
        "translate_files": {"source_files": ["a"]},
    }
    for name, arguments in names.items():
        former, new = (make_problem(name, arguments, None, version) for version in (1, 2))
        earlier = dict(type(former).earlier_arguments)
        assert earlier.pop("disjoint_splits") is False
        said = make_problem(name, {**arguments, "disjoint_splits": False, **earlier})
        folders = [
            [path.parent.name for path in problem.vocab_files(tmp_path)]
            for problem in (former, said, new)
        ]
        assert folders[0] == folders[1]
        if folders[0]:
            assert folders[2] != folders[0], name


class OwnCopy(Algorithmic):
    """As whoever derives from a problem writes it: without the arguments that came later."""

    def __init__(self, max_length: int = 6) -> None:
        super().__init__("copy", 2, max_length, 200)


def own_copy() -> Problem:
    return OwnCopy()


class OwnLanguage(LmFiles):
    def __init__(self, **options: Any) -> None:
        super().__init__(["a"], **options)


def test_a_problem_of_one_s_own_that_derives_from_another_keeps_what_it_had_in_0_4(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = {"own_copy": OwnCopy, "own_copy_function": own_copy, "own_language": OwnLanguage}
    # Registered for this test alone.
    monkeypatch.setattr(registry.problems, "get", made.__getitem__)
    for name in ("own_copy", "own_copy_function"):
        former, new = (make_problem(name, {}, None, version) for version in (1, 2))
        said = Algorithmic("copy", 2, 6, 200, disjoint_splits=False)
        trained = [[*keys(problem, "train", tmp_path)] for problem in (former, new, said)]
        assert trained[0] == trained[2] != trained[1]
    former, new = (make_problem("own_language", {}, None, version) for version in (1, 2))
    said = LmFiles(["a"], disjoint_splits=False, fit_vocabulary=False)
    folders = [problem.vocab_files(tmp_path) for problem in (former, said, new)]
    assert folders[0] == folders[1] != folders[2]


def test_a_split_that_training_has_whole_is_told(tmp_path: Path) -> None:
    story = "1 Mary moved to the office.\n2 Where is Mary?\toffice\t1\n"
    write_archive(tmp_path, {"en/qa1_x_train.txt": story * 30, "en/qa1_x_test.txt": story})
    with pytest.raises(UserError, match=r"all questions for validation are also trained on"):
        BabiQA((1,), "1k").prepare(tmp_path / "data", tmp_path)


LINES = st.lists(st.sampled_from(["a", "b", " b", "c  d", "c d", "e", "é", "é"]), max_size=30)


@given(LINES, LINES)
def test_lines_that_two_texts_share_are_left_in_one_of_them(
    train: list[str], held_out: list[str]
) -> None:
    train *= 3
    kept, judged = separate_lines(train, held_out)
    assert not {*map(same_text, kept)} & {*map(same_text, judged)}
    # Nothing else is lost.
    both = {*map(same_text, train)} & {*map(same_text, held_out)}
    for before, after in ((train, kept), (held_out, judged)):
        assert {*before} - {*after} == {
            line for line in before if line not in after and same_text(line) in both
        }
    counts = {line: [*map(same_text, train)].count(line) for line in both}
    assert all((line in map(same_text, kept)) == (count > 10) for line, count in counts.items())


@given(
    st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=9), st.integers(0, 5)
)
def test_an_input_belongs_to_one_split_whatever_its_padding(
    rows: list[list[int]], padding: int
) -> None:
    width = max(map(len, rows)) + padding
    ids = np.array([row + [0] * (width - len(row)) for row in rows])
    splits = {split: belong(ids, split) for split in ("train", "validation", "test")}
    np.testing.assert_array_equal(sum(map(np.int32, splits.values())), 1)
    for row, number in zip(rows, range(len(rows)), strict=True):
        alone = np.array([row]).reshape(1, -1)
        assert all(belong(alone, split)[0] == splits[split][number] for split in splits)


@given(LINES, LINES)
def test_what_is_trained_on_is_not_judged(train: list[str], judged: list[str]) -> None:
    left = exclude_trained(judged, train, same_text)
    assert left == [line for line in judged if same_text(line) not in {*map(same_text, train)}]
