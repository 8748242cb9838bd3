"""Values of another type end in one sentence, whichever function of the library gets them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import ut_tf
from tests.stub_problems import Words
from ut_tf.argument_types import is_of
from ut_tf.data.problem import Problem
from ut_tf.errors import UserError

CALLS: dict[str, Any] = {
    "`run`=runs/babi: expected a Run, not str; Run.load reads one.": [
        lambda: ut_tf.train("runs/babi"),  # type: ignore[arg-type]
        lambda: ut_tf.inspect_run("runs/babi"),  # type: ignore[arg-type]
        lambda: ut_tf.load_model("runs/babi"),  # type: ignore[arg-type]
        lambda: ut_tf.save("runs/babi", "models/babi"),  # type: ignore[arg-type]
    ],
    "`run`=runs/babi: expected a Run or a list, of which each is a Run, not str; Run.load reads"
    " one.": [
        lambda: ut_tf.evaluate("runs/babi"),  # type: ignore[arg-type]
    ],
    "`place`=3: expected a text or a Path, not int.": [lambda: ut_tf.load(3)],
    "`place`=None: expected a text or a Path, not NoneType.": [lambda: ut_tf.load(None)],
    "`output_dir`=b'runs': expected a text or a Path, not bytes.": [
        lambda: ut_tf.Run.load(b"runs")
    ],
    "`seed`=1: expected a whole number, not str.": [
        lambda: ut_tf.Run.create("babi_sim", "ut_demo", seed="1")
    ],
    "`hparams`=['dropout=0']: expected a text or a Mapping, not list.": [
        lambda: ut_tf.Run.create("babi_sim", "ut_demo", ["dropout=0"])
    ],
    "`problem`=None: expected a text, not NoneType.": [lambda: ut_tf.Run.create(None, "ut_demo")],
}


@pytest.mark.parametrize(
    ("sentence", "call"), [(told, call) for told, calls in CALLS.items() for call in calls]
)
def test_the_sentence_says_what_was_expected(sentence: str, call: Any) -> None:
    with pytest.raises(UserError) as raised:
        call()
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("value", "hint", "fits"),
    [
        (np.int64(3), int, True),
        (3, float, True),
        (3.0, int, False),
        ("a", str | Sequence[str], True),
        (["a", 1], str | Sequence[str], False),
        ({"a": 1}, str | Mapping[str, Any], True),
        (["a"], dict[str, Any], False),
        ("ab", Collection[str], False),
        ([1, 2], Iterable[int], True),
        ([1, "2"], Iterable[int], False),
        (400, Iterable[int], False),
        ("float32", Literal["float32", "float16"], True),
        ("float64", Literal["float32", "float16"], True),  # Its sentence is the function's own.
        (object(), Any, True),
    ],
)
def test_what_fits_a_hint(value: Any, hint: Any, fits: bool) -> None:
    assert is_of(value, hint) is fits


def test_a_call_that_lacks_an_argument_is_pythons_own_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        ut_tf.evaluate()  # type: ignore[call-arg]


def test_a_problem_takes_the_name_of_a_folder_as_a_text(tmp_path: Path) -> None:
    class OwnWords(Words):
        """Another with a method of its own."""

        def data_note(self, data_dir: Path) -> str:
            return str(data_dir / "note")

    problem = OwnWords("a b c")
    problem.prepare(str(tmp_path), tmp_dir=str(tmp_path))
    assert problem.spec(str(tmp_path)) == problem.spec(data_dir=tmp_path)
    assert problem.is_prepared(str(tmp_path))
    assert problem.vocab_files(data_dir=str(tmp_path)) == [tmp_path / "vocab.txt"]
    assert problem.data_note(str(tmp_path)) == str(tmp_path / "note")
    assert OwnWords.text_codec is Problem.text_codec


def test_the_folder_of_ones_own_code_may_be_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "no_such_code"
    calls: list[Any] = [
        lambda: ut_tf.Run.load(ut_tf.__path__[0], usr_dir=folder),
        lambda: ut_tf.Run.create("babi_sim", "ut_demo", usr_dir=folder),
        lambda: ut_tf.load("babi", usr_dir=folder),
    ]
    for call in calls:
        with pytest.raises(UserError, match=r"holds no run|there is no file"):
            call()


def test_folders_as_text_reach_static_and_class_methods_of_a_problem(tmp_path: Path) -> None:
    class Own(Words):
        @classmethod
        def data_note(cls, data_dir: Path) -> str:
            return f"{cls.__name__} in {data_dir.name}"

        @staticmethod
        def vocab_files(data_dir: Path) -> list[Path]:  # type: ignore[override]
            return [data_dir / "own.txt"]

    for problem in (Own, Own()):
        assert problem.data_note(str(tmp_path)) == f"Own in {tmp_path.name}"  # type: ignore[arg-type]
        assert problem.vocab_files(str(tmp_path)) == [tmp_path / "own.txt"]  # type: ignore[arg-type]
