"""Run directories whose names are patterns: nothing but the file that was named is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.bin.test_end_to_end import DATA, TINY
from tests.interop.test_tensor2tensor import GOLDEN
from tests.training.toy import toy_run
from ut_tf.bin import avg_checkpoints, exporter, trainer
from ut_tf.bin import eval as eval_command
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import measure_checkpoint
from ut_tf.interop.tensor2tensor_files import read_checkpoint
from ut_tf.run import Run
from ut_tf.run_weights import load_model
from ut_tf.serving.served_model import ServedModel
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


@pytest.mark.slow
def test_commands_take_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    run, mean = tmp_path / NAME / "run[2]", tmp_path / NAME / "mean"
    training = [
        "--problem=prefix_sums_32",
        "--hparams_set=ut_algorithmic",
        f"--problem_args={DATA}",
        f"--data_dir={tmp_path / NAME}",
        f"--tmp_dir={tmp_path / NAME}",
        "--num_gpus=0",
        f"--hparams={TINY}",
    ]
    for steps in (2, 3):
        assert trainer.main([*training, f"--output_dir={run}", f"--train_steps={steps}"]) == 0
    assert (run / "checkpoints" / "step-00000003").is_dir()
    assert eval_command.main([f"--output_dir={run}", "--lengths=4"]) == 0
    assert avg_checkpoints.main([f"--output_dir={run}", f"--avg_dir={mean}", "--n=2"]) == 0
    warm = [f"--output_dir={tmp_path / 'second'}", f"--warm_start_from={mean}", "--train_steps=1"]
    assert trainer.main([*training, *warm]) == 0
    export = tmp_path / NAME / "export"
    assert exporter.main([f"--output_dir={run}", f"--export_dir={export}"]) == 0
    served = ServedModel(export / "1", 1)
    assert len(served.answer("serving_default", {"inputs": ["1 2 3"]})["outputs"]) == 1


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
