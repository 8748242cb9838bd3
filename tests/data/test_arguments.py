"""Arguments of problems: types, and files that are found from another folder too."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict, Unpack

import pytest

from ut_tf import registry
from ut_tf.data.arguments import absolute_files, convert_arguments, parameters_of
from ut_tf.data.example_table import ExampleTable
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.errors import UserError
from ut_tf.problem_spec import ProblemSpec
from ut_tf.run import Run


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


@pytest.mark.parametrize(
    "declared", [("texts", "words"), {"texts": "file", "words": True}, "texts", None, {"words": []}]
)
def test_files_that_are_declared_otherwise_are_refused_at_registration(
    own_lines: None, declared: Any
) -> None:
    del own_lines
    wrong = type("Wrong", (OwnLines,), {"file_arguments": declared})
    with pytest.raises(UserError, match=r'expected a dictionary from each argument to "file"'):
        registry.problems.register("wrong", wrong)
    assert "wrong" not in registry.problems.names()


def test_a_partial_can_be_registered_and_is_named_when_it_is_registered_twice(
    own_lines: None,
) -> None:
    del own_lines
    registry.problems.register("noted", functools.partial(OwnLines, note="a"))
    with pytest.raises(UserError, match=r"registered twice, in .*test_arguments\.py:OwnLines"):
        registry.problems.register("noted", functools.partial(OwnLines, note="b"))
