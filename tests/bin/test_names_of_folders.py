"""Run directories whose names are patterns: nothing but the file that was named is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interop.test_tensor2tensor import GOLDEN
from tests.training.toy import toy_run
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import measure_checkpoint
from ut_tf.interop.tensor2tensor_files import read_checkpoint
from ut_tf.run import Run
from ut_tf.run_weights import load_model
from ut_tf.storage import tensorflow_paths
from ut_tf.storage.tensorflow_paths import readable_by_tensorflow
from ut_tf.training.averaging import average_checkpoints
from ut_tf.training.trainer import train

# "[1]" is a pattern of "1", and "\\" takes the special meaning from what follows it.
NAME = r"a[1] \{x,y}*?"


@pytest.mark.usefixtures("eagerly")
def test_a_training_in_one_goes_on_and_is_used(tmp_path: Path) -> None:
    run = toy_run(tmp_path / NAME / "run[2]", train_steps=2, eval_frequency=1)
    run._write()
    assert train(run).step == 2
    assert train(toy_run(run.output_dir, train_steps=3, eval_frequency=1)).step == 3
    assert measure_checkpoint(run, "last").step == 3
    assert average_checkpoints(run, [2, 3], tmp_path / NAME / "mean") == 3
    load_model(Run.load(tmp_path / NAME / "mean"))


def test_checkpoints_of_tensor2tensor_in_one_are_read(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "t2t_run", tmp_path / NAME)
    assert read_checkpoint(tmp_path / NAME).keys() == read_checkpoint(GOLDEN / "t2t_run").keys()


def test_prefixes_of_files_are_found(tmp_path: Path) -> None:
    for name in ("m[1].index", "m[1].data-0", "m[1]0.index", "m1.index"):
        (tmp_path / name).write_text(name)
    with readable_by_tensorflow(tmp_path / "m[1]") as prefix:
        assert "[" not in str(prefix)
        assert sorted(path.read_text() for path in prefix.parent.iterdir()) == [
            "m[1].data-0",
            "m[1].index",
        ]
    assert not prefix.parent.exists()
    with readable_by_tensorflow(tmp_path / "plain") as path:
        assert path == tmp_path / "plain"


def test_temporary_files_in_such_a_folder_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t[1]").mkdir()
    monkeypatch.setattr(tensorflow_paths.tempfile, "tempdir", str(tmp_path / "t[1]"))
    with (
        pytest.raises(UserError, match=r"set TMPDIR to another"),
        readable_by_tensorflow(tmp_path / "a[1]"),
    ):
        pass
