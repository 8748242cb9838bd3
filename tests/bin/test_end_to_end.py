"""The commands one after the other, on a network that learns nothing in its two updates. It answers
at each position of its inputs; tests/test_extending.py has networks that write.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import ut_tf
from ut_tf.bin import eval as eval_command
from ut_tf.bin import trainer
from ut_tf.run_weights import restore_weights

TINY = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,batch_size=64,max_length=16"
DATA = "max_length=5,train_examples=64,validation_length=6,validation_examples=8,test_examples=8"


@pytest.fixture
def train(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")

    def call(output_dir, *more, hparams=TINY):
        return trainer.main(
            [
                "--problem=prefix_sums_32",
                "--hparams_set=ut_algorithmic",
                f"--hparams={hparams}",
                f"--problem_args={DATA}",
                f"--output_dir={output_dir}",
                f"--data_dir={tmp_path}/data",
                f"--tmp_dir={tmp_path}/tmp",
                "--num_gpus=0",
                *more,
            ]
        )

    return call


def _evaluate(output_dir, capsys, *more) -> dict[str, float]:
    capsys.readouterr()
    assert eval_command.main([f"--output_dir={output_dir}", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_its_model_refuses_leaves_the_directory_free(train, tmp_path, capsys):
    assert train(tmp_path / "run", "--hparams_set=memn2n_tiny", hparams="") == 1
    assert "answers questions on facts" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("eagerly")
def test_train_move_evaluate_resume_and_start_from_it(train, tmp_path, capsys):
    first, moved, second = tmp_path / "first", tmp_path / "moved", tmp_path / "second"
    assert train(first, "--train_steps=2") == 0
    assert "next: ut-eval --output_dir=" in capsys.readouterr().out
    first.rename(moved)
    metrics = _evaluate(moved, capsys, "--lengths=4,7")
    assert {"length_4/accuracy", "length_7/seq_accuracy"} <= set(metrics)

    # The stride is the one that it was trained with.
    deeper = _evaluate(
        moved,
        capsys,
        "--lengths=4",
        "--hparams=eval_position_offset=7, eval_num_steps=5,eval_position_stride=1",
        "--json=record",
    )
    assert deeper["hparams"] == "eval_num_steps=5,eval_position_offset=7"
    assert eval_command.main([f"--output_dir={moved}", "--hparams=num_steps=5"]) == 1
    assert "num_steps cannot change after training" in capsys.readouterr().err

    run = ut_tf.Run.load(moved)
    made = run.make_model()
    assert restore_weights(made, run) == 2
    _assert_same_weights(ut_tf.load_model(run), made)

    assert train(moved, "--train_steps=3") == 0
    assert (moved / "checkpoints" / "step-00000003").is_dir()
    assert train(moved, "--train_steps=3", hparams=f"{TINY},dropout=0.5") == 1

    # With a learning rate of nothing, a warm start ends where it began.
    still = f"{TINY},learning_rate=1e-30,act_epsilon=0.02"
    assert train(second, "--train_steps=1", f"--warm_start_from={moved}", hparams=still) == 0
    assert "warning: act_epsilon=0.02 has no effect with halting=none" in capsys.readouterr().err
    _assert_same_weights(*(ut_tf.load_model(ut_tf.Run.load(folder)) for folder in (second, moved)))


def _assert_same_weights(model, other) -> None:
    for weight, expected in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(weight, expected)
