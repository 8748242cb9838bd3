"""The commands one after the other, on a network that learns nothing in its two updates. It answers
at each position of its inputs; tests/test_extending.py has networks that write.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import ut_tf
from tests.interop.test_tensor2tensor import GOLDEN
from tests.training.toy import toy_run
from ut_tf.bin import eval as eval_command
from ut_tf.bin import trainer
from ut_tf.errors import UserError
from ut_tf.evaluation.evaluator import measure_checkpoint
from ut_tf.interop.tensor2tensor_files import read_checkpoint
from ut_tf.run import Run
from ut_tf.run_weights import load_model, restore_weights
from ut_tf.storage import tensorflow_paths
from ut_tf.storage.tensorflow_paths import readable_by_tensorflow
from ut_tf.training.averaging import average_checkpoints
from ut_tf.training.trainer import train

TINY = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,batch_size=64,max_length=16"
DATA = "max_length=5,train_examples=64,validation_length=6,validation_examples=8,test_examples=8"


@pytest.fixture
def trained(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")

    def call(output_dir, *more, hparams=TINY):
        return trainer.main(
            [
                *("--problem=prefix_sums_32", "--hparams_set=ut_algorithmic"),
                *(f"--hparams={hparams}", f"--problem_args={DATA}", f"--output_dir={output_dir}"),
                *(f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}/tmp", "--num_gpus=0"),
                *more,
            ]
        )

    return call


def _evaluate(output_dir, capsys, *more) -> dict[str, float]:
    capsys.readouterr()
    assert eval_command.main([f"--output_dir={output_dir}", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_its_model_refuses_leaves_the_directory_free(trained, tmp_path, capsys):
    assert trained(tmp_path / "run", "--hparams_set=memn2n_tiny", hparams="") == 1
    assert "answers questions on facts" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("eager")
def test_train_move_evaluate_resume_and_start_from_it(trained, tmp_path, capsys):
    first, moved, second = tmp_path / "first", tmp_path / "moved", tmp_path / "second"
    assert trained(first, "--train_steps=2") == 0
    assert "next: ut-eval --output_dir=" in capsys.readouterr().out
    first.rename(moved)
    metrics = _evaluate(moved, capsys, "--lengths=4,7")
    assert {"length_4/accuracy", "length_7/seq_accuracy"} <= set(metrics)

    assert eval_command.main([f"--output_dir={moved}", "--hparams=num_steps=5"]) == 1
    assert "num_steps cannot change after training" in capsys.readouterr().err

    run = ut_tf.Run.load(moved)
    made = run.make_model()
    assert restore_weights(made, run) == 2
    _assert_same_weights(ut_tf.load_model(run), made)

    assert trained(moved, "--train_steps=3") == 0
    assert (moved / "checkpoints" / "step-00000003").is_dir()
    assert trained(moved, "--train_steps=3", hparams=f"{TINY},dropout=0.5") == 1

    # With a learning rate of nothing, a warm start ends where it began.
    still = f"{TINY},learning_rate=1e-30,act_epsilon=0.02"
    assert trained(second, "--train_steps=1", f"--warm_start_from={moved}", hparams=still) == 0
    assert "warning: act_epsilon=0.02 has no effect with halting=none" in capsys.readouterr().err
    _assert_same_weights(*(ut_tf.load_model(ut_tf.Run.load(folder)) for folder in (second, moved)))


def _assert_same_weights(model, other) -> None:
    for weight, expected in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)


# "[1]" is a pattern of "1", and "\\" takes the special meaning from what follows it.
NAME = r"a[1] \{x,y}*?"


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
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
