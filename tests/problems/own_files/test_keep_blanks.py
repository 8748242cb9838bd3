"""`keep_blanks`: indentation, runs of blanks and tabs of a language model's text."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ut_tf.data.text.codec import TextCodec
from ut_tf.data.text.subwords import train_subwords
from ut_tf.errors import UserError
from ut_tf.problems.own_files.language_model import LmFiles

CODE = [
    line
    for number in range(40)
    for line in (f"if x{number}:", f"    y = {number}", "        return  y", "\tz = 1 ", "end")
]


def prepared(folder: Path, **options: object) -> tuple[LmFiles, TextCodec]:
    (folder / "code.txt").write_text("\n".join(CODE))
    problem = LmFiles(source_files=str(folder / "code.txt"), **options)  # type: ignore[arg-type]
    problem.prepare(folder / "data", folder)
    return problem, problem.text_codec(problem.vocab_files(folder / "data")[0].parent)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> tuple[LmFiles, TextCodec, Path]:
    folder = tmp_path_factory.mktemp("keeping")
    return *prepared(folder, keep_blanks=True), folder / "data"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.text(st.sampled_from(" \t\u00a0\u3000xy=1éß本") | st.characters(codec="utf-8")),
        min_size=1,
        max_size=8,
    )
)
def test_every_text_comes_back_with_all_its_blanks(
    keeping: tuple[LmFiles, TextCodec, Path], texts: list[str]
) -> None:
    # Control characters become blanks, U+2581 too, and U+FEFF goes.
    plain = [
        unicodedata.normalize(
            "NFC", "".join(c for c in text if c == "\t" or (c.isprintable() and c not in "▁\ufeff"))
        )
        for text in texts
    ]
    codec = keeping[1]
    ids = codec.encode_targets(tf.constant(plain))
    assert [text.decode() for text in codec.decode(ids).numpy()] == plain


def test_what_is_trained_on_has_its_indentation(keeping: tuple[LmFiles, TextCodec, Path]) -> None:
    problem, codec, data = keeping
    ids = np.concatenate([row["targets"] for row in problem.dataset("validation", data)])
    lines = np.split(ids, np.flatnonzero(ids == 1) + 1)[:-1]
    written = [codec.decode(tf.constant([line]))[0].numpy().decode() for line in lines]
    # Without those that stand in all parts of the text.
    assert set(written) <= set(CODE) and len(written) == 4
    assert any(line.startswith("    y") for line in written)
    # One subword for the indentation.
    assert len(codec.encode_targets(tf.constant(["        return  y"]))[0]) < 8


def test_without_it_a_note_says_what_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, codec = prepared(tmp_path)
    assert "note: 120 of 200 lines are indented or have runs of blanks" in capsys.readouterr().err
    same = codec.encode_targets(tf.constant(["x = 1", "    x  = 1 "])).numpy()
    np.testing.assert_array_equal(same[0], same[1])


def test_a_given_vocabulary_must_keep_blanks_too(tmp_path: Path) -> None:
    for keeps in (True, False):
        (tmp_path / "given.model").write_bytes(train_subwords(CODE, 300, keep_blanks=keeps))
        options = {"keep_blanks": True, "vocab_file": str(tmp_path / "given.model")}
        if keeps:
            prepared(tmp_path, **options)
        else:
            with pytest.raises(UserError, match=r"given\.model drops blanks: give one"):
                prepared(tmp_path / ".." / tmp_path.name, **{**options, "window": 9})
        (tmp_path / "data").rename(tmp_path / f"data-{keeps}")


def test_a_sign_that_the_subwords_cannot_keep_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("a▁b\nc d\ne f\ng h\n")
    LmFiles(source_files=str(tmp_path / "text.txt")).prepare(tmp_path / "data", tmp_path)
    assert "warning: 1 line with U+2581" in capsys.readouterr().err
