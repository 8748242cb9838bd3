"""Keras' backend must be TensorFlow: the library says so in one sentence, commands choose it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import keras
import pytest

import ut_tf
from ut_tf.bin.frame.command import execute
from ut_tf.errors import UserError
from ut_tf.keras_backend import check_backend


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home folder of a program that has not imported Keras yet."""
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.delenv("KERAS_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "keras")
    (tmp_path / ".keras").mkdir()
    return tmp_path


def _write(home: Path, content: str) -> Path:
    path = home / ".keras" / "keras.json"
    path.write_text(content)
    return path


def test_the_sentence_says_what_is_set_where_and_how_to_change_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(home, json.dumps({"backend": "torch"}))
    with pytest.raises(UserError) as raised:
        check_backend()
    assert str(raised.value) == (
        f'ut-tf needs Keras\' TensorFlow backend, but "backend" in {path} says torch: change it'
        " there, or set KERAS_BACKEND=tensorflow, before Keras is imported."
    )
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(UserError) as raised:
        _ = ut_tf.UniversalTransformer
    assert str(raised.value) == (
        "ut-tf needs Keras' TensorFlow backend, but the environment variable KERAS_BACKEND says"
        " jax: unset it, or set KERAS_BACKEND=tensorflow, before Keras is imported."
    )
    for load in (lambda: ut_tf.layers.Block, lambda: ut_tf.registry.models.get("lstm")):
        with pytest.raises(UserError, match="KERAS_BACKEND says jax"):
            load()


def test_a_keras_that_is_loaded_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    check_backend()
    monkeypatch.setattr(keras.config, "backend", lambda: "torch")
    with pytest.raises(UserError, match="but the program has chosen torch: choose tensorflow"):
        _ = ut_tf.Run


def test_a_command_chooses_tensorflow_and_notes_it_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del home
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    for _ in range(2):  # The second stands for a process that the first one starts.
        assert execute("ut-eval", [], lambda _: check_backend() or 0, []) == 0
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    assert capsys.readouterr().err == (
        "note: this command uses Keras' TensorFlow backend, although the environment variable"
        " KERAS_BACKEND says jax.\n"
    )
