"""The vocabulary of one's own files, which are often few."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ut_tf.config.training import TrainingConfig
from ut_tf.data.text.subword_files import warn_of_other_text
from ut_tf.data.text.subwords import Subwords, train_subwords
from ut_tf.data.text.tensor2tensor_subwords import Tensor2TensorSubwords
from ut_tf.factories import make_problem


@pytest.mark.parametrize("name", ["classify_files", "lm_files"])
def test_a_small_text_has_fewer_subwords_than_were_asked_for_and_a_line_says_so(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{label}\tthe {label} number {n}" for n in range(50) for label in ("red", "blue")]
    (tmp_path / "own.tsv").write_text("\n".join(lines))
    arguments = {"source_files": [str(tmp_path / "own.tsv")]}
    problem = make_problem(name, arguments, TrainingConfig(vocab_size=5000))
    problem.prepare(tmp_path / "data", tmp_path)
    spec = problem.spec(tmp_path / "data")
    size = max(spec.input_vocab_size, spec.target_vocab_size)
    assert 256 < size < 5000
    told = f"{name}: the vocabulary has {size} subwords instead of 5,000"
    assert capsys.readouterr().err.count(told) == 1


FILES = {
    "classify_files": lambda n: f"{'even' if n % 2 == 0 else 'odd'}\tthe number {n * 7919}\n",
    "lm_files": lambda n: f"the number {n * 7919} of many\n",
    "translate_files": lambda n: f"the number {n * 7919}\tdie Zahl {n * 7919}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_the_vocabulary_of_a_new_run_follows_the_size_of_its_text(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "own.tsv").write_text("".join(map(FILES[name], range(300))))
    folders = []
    arguments = {"source_files": [str(tmp_path / "own.tsv")]}
    # Of a run of version 0.4, of a new run, and of a new one in the way of 0.4.
    former = {"fit_vocabulary": False, "disjoint_splits": False}
    for version, more in ((1, {}), (2, {}), (2, former)):
        training = TrainingConfig(vocab_size=5000)
        problem = make_problem(name, {**arguments, **more}, training, version)
        problem.prepare(tmp_path / "data", tmp_path)
        (path,) = (
            path for path in problem.vocab_files(tmp_path / "data") if path.suffix == ".model"
        )
        folders.append((path.parent, Subwords(path.read_bytes()).size))
    assert folders[0] == folders[2] != folders[1]
    characters = sum(len(FILES[name](n)) for n in range(300))
    assert folders[1][1] <= 259 + 60 + characters // 100 < folders[0][1]


@pytest.mark.parametrize("name", FILES)
def test_a_text_may_be_read_by_its_characters(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.tsv").write_text("".join(map(FILES[name], range(100))))
    training = TrainingConfig(vocab_size=5000, subword_model="char")
    problem = make_problem(name, {"source_files": [str(tmp_path / "own.tsv")]}, training)
    problem.prepare(tmp_path / "data", tmp_path)
    assert "too small" not in capsys.readouterr().err
    (path,) = (path for path in problem.vocab_files(tmp_path / "data") if path.suffix == ".model")
    subwords = Subwords(path.read_bytes())
    assert len(subwords.encode(["12 number"])[0]) == len("▁12▁number") + 1


@pytest.mark.parametrize("name", FILES)
def test_a_vocabulary_that_was_made_for_other_text_is_noticed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    english = [f"the number {n} of many words" for n in range(50)]
    (tmp_path / "english.model").write_bytes(train_subwords(english, 330, exact=False))
    greek = {
        "classify_files": lambda n: f"{n % 2}\tο αριθμός {n} από πολλούς\n",
        "lm_files": lambda n: f"ο αριθμός {n} από πολλούς\n",
        "translate_files": lambda n: f"the number {n} of words\tο αριθμός {n} από πολλούς\n",
    }[name]
    for write, is_other in ((FILES[name], False), (greek, True)):
        (tmp_path / "own.tsv").write_text("".join(map(write, range(60))))
        arguments = {
            "source_files": [str(tmp_path / "own.tsv")],
            "vocab_file": str(tmp_path / "english.model"),
        }
        make_problem(name, arguments).prepare(tmp_path / f"data{is_other}", tmp_path)
        told = capsys.readouterr().err
        assert (
            "are single bytes or unknown: the vocabulary was made for other" in told
        ) == is_other
        if name == "translate_files" and is_other:
            assert "the targets for train of translate_files" in told
            assert "the sources for" not in told


def test_a_vocabulary_of_tensor2tensor_that_was_made_for_other_text_is_noticed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    letters = [*"\\_u;0123456789abcdefghijklmnopqrstvwxyz", "the_", "number_"]
    lines = ["'<pad>'", "'<EOS>'", *(f"'{letter}'" for letter in letters)]
    subwords = Tensor2TensorSubwords("\n".join(lines).encode())
    for text, is_other in (("the number", False), ("ο αριθμός", True)):
        ids = np.array(subwords.encode([text])[0])
        warn_of_other_text(subwords, ids, "a text")
        assert ("of the symbols of a text" in capsys.readouterr().err) == is_other
