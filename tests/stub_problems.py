"""A registry with two problems and a narrow set, and runs made of them."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ut_tf import registry
from ut_tf.config.hparams import HParams
from ut_tf.data.problem import EvaluationSet, Problem
from ut_tf.problem_spec import ProblemSpec
from ut_tf.registry import Entry, Registry
from ut_tf.run import Run


class Words(Problem):
    """A problem whose prepared data is its vocabulary alone."""

    def __init__(self, words: str = "a b", limit: int = 3) -> None:
        self.words = words
        self.limit = limit

    def prepare(self, data_dir: Path, tmp_dir: Path) -> None:
        del tmp_dir
        if not (data_dir / "vocab.txt").exists():
            (data_dir / "vocab.txt").write_text("\n".join(self.words.split()))

    def spec(self, data_dir: Path) -> ProblemSpec:
        size = 2 + len((data_dir / "vocab.txt").read_text().split())
        return ProblemSpec(
            inputs="tokens",
            targets="tokens",
            input_vocab_size=size,
            target_vocab_size=size,
            shared_vocab=True,
        )

    def examples(self, split, data_dir, seed=0, epoch=0, length=None):
        raise NotImplementedError

    def evaluation_sets(self, lengths=()):
        del lengths
        return [EvaluationSet("", "test", "teacher_forced")]

    def vocab_files(self, data_dir: Path) -> list[Path]:
        return [data_dir / "vocab.txt"]


def narrow() -> HParams:
    """A narrow set."""
    return HParams().change(hidden_size=16, num_heads=2, train_steps=10)


def register_stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the problems words and other_words and the set narrow in the place of all names."""
    catalogue = types.ModuleType("stub_names")
    catalogue.PROBLEMS = {}
    catalogue.SETS = {}
    catalogue.MODELS = {
        name: Entry("nowhere:x") for name in ("universal_transformer", "other_model")
    }
    monkeypatch.setitem(sys.modules, "stub_names", catalogue)
    for attribute, kind, table in (
        ("problems", "problem", "PROBLEMS"),
        ("hparams_sets", "hyperparameter set", "SETS"),
        ("models", "model", "MODELS"),
    ):
        monkeypatch.setattr(registry, attribute, Registry(kind, f"stub_names:{table}"))
    registry.problems.register("words", Words)
    registry.problems.register("other_words", Words)
    registry.hparams_sets.register("narrow", narrow)


def create_run(
    folder: Path, problem: str = "words", hparams_set: str = "narrow", **changes: Any
) -> Run:
    """A run whose folders stand in `folder`; `changes` are arguments of ``Run.create``."""
    folders = {name: folder / name for name in ("output_dir", "data_dir", "tmp_dir")}
    return Run.create(problem, hparams_set, **{**folders, **changes})
