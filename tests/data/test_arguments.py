"""Arguments of problems: types, and files that are found from another folder too."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, Unpack

import numpy as np
import pytest

from tests.bin.tiny_runs import TINY
from ut_tf import registry
from ut_tf.data.argument_help import argument_help
from ut_tf.data.arguments import absolute_files, convert_arguments, file_paths, parameters_of
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run

if TYPE_CHECKING:
    from missing import Missing


class OwnLines(Problem):
    """The lines of some files, each a class by its first letter; the words are listed in another
    file.
    """

    name = "own_lines"
    file_arguments: ClassVar[Mapping[str, Literal["file", "files"]]] = {
        "texts": "files",
        "words": "file",
    }

    def __init__(self, texts: tuple[str, ...] = (), words: str = "", note: str = "") -> None:
        self.texts, self.words, self.note = texts, words, note

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        del data_dir, tmp_dir
        for path in (*self.texts, self.words):
            if not Path(path).is_file():
                raise UserError(f"there is no {path}.")

    def spec(self, data_dir: Path) -> ProblemSpec:
        del data_dir
        size = 2 + len(Path(self.words).read_text().split())
        return ProblemSpec("tokens", "class", size, 26)

    def examples(
        self, split: str, data_dir: Path, seed: int = 0, epoch: int = 0, length: int | None = None
    ) -> ExampleTable:
        raise NotImplementedError

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        del lengths
        return [EvaluationSet("", "test", "classify")]


@pytest.fixture
def own_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry.problems, "_registered", dict(registry.problems._registered))
    registry.problems.register("own_lines", OwnLines)
    yield


@pytest.mark.usefixtures("own_lines")
def test_files_are_absolute_and_other_arguments_as_they_are() -> None:
    here = os.getcwd()
    given = {"texts": "a,~/b", "words": "w,x", "note": "a,b"}
    expected = {
        "texts": [f"{here}/a", os.path.expanduser("~/b")],
        "words": f"{here}/w,x",
        "note": "a,b",
    }
    assert absolute_files("own_lines", given) == expected
    assert absolute_files("own_lines", expected) == expected, "absolute paths stay as they are"
    assert absolute_files("own_lines", {"texts": ("a",)}) == {"texts": [f"{here}/a"]}
    wrong: dict[str, Any] = {"texts": 3, "words": None}
    assert absolute_files("own_lines", wrong) == wrong, "types are checked later"


@pytest.mark.usefixtures("own_lines")
def test_a_run_on_ones_own_files_is_used_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    there.mkdir()
    elsewhere.mkdir()
    (there / "one.txt").write_text("a b")
    (there / "words.txt").write_text("a b c")
    monkeypatch.chdir(there)
    Run.create(
        "own_lines",
        "transformer_tiny",
        output_dir=tmp_path / "run",
        data_dir=tmp_path / "data",
        tmp_dir=tmp_path / "tmp",
        problem_args="texts=one.txt,words=words.txt",
    )
    monkeypatch.chdir(elsewhere)
    run = Run.load(tmp_path / "run").prepare()
    assert run.spec is not None
    assert run.spec.input_vocab_size == 5
    assert run.problem_args == {
        "texts": [str(there / "one.txt")],
        "words": str(there / "words.txt"),
    }


class Options(TypedDict, total=False):
    shade: int
    kind: Literal["light", "dark"]


def _shaded(name: str = "", **options: Unpack[Options]) -> dict[str, Any]:
    return {"name": name, **options}


def test_arguments_that_several_problems_share_are_checked_by_name_and_type() -> None:
    assert parameters_of(_shaded) == {"name", "shade", "kind"}
    assert convert_arguments("shaded", _shaded, {"shade": 3}) == {"shade": 3}
    with pytest.raises(UserError, match=r"`shade`=dark of problem 'shaded': expected a whole n"):
        convert_arguments("shaded", _shaded, {"shade": "dark"})
    with pytest.raises(UserError, match="`kind`=grey of problem 'shaded': expected light or dark"):
        convert_arguments("shaded", _shaded, {"kind": "grey"})
    with pytest.raises(UserError, match=r"`kind`=drak"):
        convert_arguments("shaded", _shaded, {"kind": "drak"})
    with pytest.raises(UserError, match="no argument 'name': it takes shade, kind"):
        convert_arguments(
            "shaded", functools.partial(_shaded, name="registered"), {"name": "another"}
        )
    with pytest.raises(UserError, match=r"no argument 'shadow'; did you mean shade\?"):
        convert_arguments("shaded", _shaded, {"shadow": 3})


LINES = "".join(f"{'good' if number % 2 else 'bad'}\tday {number}\n" for number in range(40))


def test_a_file_that_is_there_counts_before_a_comma(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "en,de").mkdir()
    for name in ("a.txt", "en,de/c.txt", "x,y,z.txt", "z.txt"):
        (tmp_path / name).write_text("")

    def names(text: str) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in file_paths(text)]

    assert names("en,de/c.txt") == ["en,de/c.txt"]
    assert names("a.txt, en,de/c.txt,z.txt,") == ["a.txt", "en,de/c.txt", "z.txt"]
    assert names("x,y,z.txt,a.txt") == ["x,y,z.txt", "a.txt"]
    # Neither is there as a whole.
    assert names("en,de/d.txt") == ["en", "de/d.txt"]


def begun(project: Path, data_dir: Path, hparams: str = TINY) -> Run:
    return Run.create(
        "classify_files",
        "ut_classify",
        hparams,
        output_dir=project / "run",
        data_dir=data_dir,
        tmp_dir=data_dir,
        problem_args={"source_files": [str(project / "train,1.tsv")]},
    )


@pytest.mark.parametrize("where", ["data", "project/data"])
def test_a_moved_project_goes_on(tmp_path: Path, where: str) -> None:
    project, moved = tmp_path / "project", tmp_path / "moved"
    project.mkdir()
    (project / "train,1.tsv").write_text(LINES)
    first = begun(project, tmp_path / where)
    project.rename(moved)
    data_dir = tmp_path / where.replace("project", "moved")
    again = begun(moved, data_dir)
    assert again.problem_args == first.problem_args
    problem = again.make_problem()
    assert len(problem.examples("train", again.data_dir)) > 0
    # Nothing was prepared a second time.
    assert len(list((data_dir / "own_files").glob("*/summary.json"))) == 1


def test_another_content_is_another_run(tmp_path: Path) -> None:
    project, moved = tmp_path / "project", tmp_path / "moved"
    project.mkdir()
    (project / "train,1.tsv").write_text(LINES)
    begun(project, tmp_path / "data")
    project.rename(moved)
    (moved / "train,1.tsv").write_text(LINES.replace("day 3\n", "day 4\n"))
    with pytest.raises(UserError, match=r"problem_args: .*`config`=.*moved/run/config\.json"):
        begun(moved, tmp_path / "data")


def test_own_problems_may_have_any_annotation_default_and_style_of_docstring() -> None:
    class Own:
        """An own problem.

        Args:
            digits (int): how many.
            low, high: the bounds.
            kind: as many as wanted.
        """

        def __init__(
            self, digits: Missing = 3, low: int = 0, high: object = np.zeros(2), kind: str = ""
        ) -> None:
            self.values = digits, low, high, kind

    described = argument_help(Own)
    assert described["digits"].startswith("how many") and described["digits"].endswith("default: 3")
    assert described["high"] == "the bounds"
    assert described["kind"].startswith("as many as wanted")


@pytest.mark.parametrize(
    "name", ["babi_qa", "lambada_lm", "lte_program", "sudoku_6x6", "prefix_sums_32"]
)
def test_every_argument_of_a_problem_is_described(name: str) -> None:
    described = argument_help(registry.problems.get(name))
    bare = {"a text", "a number", "a whole number", "true or false", "a file"}
    assert described
    assert not [key for key, text in described.items() if text.partition(";")[0] in bare]
