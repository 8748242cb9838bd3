"""A search strategy and an evaluation method of user code (--usr_dir), through the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf

from ut_tf import registry
from ut_tf.bin import eval as eval_command
from ut_tf.bin import exporter, trainer
from ut_tf.evaluation.records import read_records
from ut_tf.reporting.summary import headline

USER_CODE = """
import tensorflow as tf

from ut_tf import registry
from ut_tf.data.problem import EvaluationSet
from ut_tf.evaluation.methods.batches import PredictionMethod
from ut_tf.metrics.sums import Metric, ratio
from ut_tf.problems.algorithmic.problem import Algorithmic
from ut_tf.search.greedy import Greedy


@registry.register_strategy("second_best")
class SecondBest(Greedy):
    def choose(self, logits, index, state):
        return tf.math.top_k(logits, 2).indices[..., 1]


@registry.register_evaluation_method("first_symbol")
class FirstSymbol(PredictionMethod):
    metrics = {"first_error": Metric(("wrong", "examples"), ratio, share=True)}
    headline = "first_error"

    def per_example(self, logits, features):
        chosen = tf.argmax(logits[:, 0], -1, output_type=tf.int32)
        return {"wrong": tf.cast(chosen != features["targets"][:, 0], tf.float32)}


@registry.register_problem("my_copy")
class MyCopy(Algorithmic):
    def __init__(self):
        super().__init__("copy", 10, 4, train_examples=64, test_examples=8, name="my_copy")
        self.selection_metric = ("first_error", "min")

    def evaluation_sets(self, lengths=()):
        return [EvaluationSet("", "test", "first_symbol")]

    def validation_sets(self):
        return [EvaluationSet("", "validation", "first_symbol", max_examples=8)]
"""
TINY = "hidden_size=8,filter_size=8,num_heads=1,num_steps=1,batch_size=64,max_length=16"


@pytest.fixture
def usr_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for known in (registry.problems, registry.strategies, registry.evaluation_methods):
        monkeypatch.setattr(known, "_registered", {})
    folder = tmp_path / "my_methods"
    folder.mkdir()
    (folder / "__init__.py").write_text(USER_CODE)
    return folder


def test_they_serve_training_evaluation_and_export(
    usr_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    argv = [
        "--problem=my_copy",
        "--hparams_set=ut_algorithmic",
        f"--hparams={TINY}",
        "--train_steps=1",
        "--num_gpus=0",
        f"--output_dir={run}",
        f"--data_dir={tmp_path}/data",
        f"--usr_dir={usr_dir}",
    ]
    assert trainer.main(argv) == 0
    (best,) = [json.loads(line) for line in (run / "checkpoints/best.json").open()]
    assert best["step"] == 1
    capsys.readouterr()
    assert eval_command.main([f"--output_dir={run}"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert 0 <= metrics["first_error"] <= 1
    (record,) = read_records(run)
    assert headline(record) == "first_error"
    assert record.selection is not None
    assert record.selection["metric"] == "first_error"
    assert "first_error" in record.intervals
    argv = [
        f"--output_dir={run}",
        "--decode_hparams=strategy=second_best,force_length=4",
        f"--export_dir={tmp_path}/export",
        "--signatures=serving_default",
        "--nowarmup",
    ]
    assert exporter.main(argv) == 0
    loaded = tf.saved_model.load(str(tmp_path / "export" / "1"))
    answer = loaded.signatures["serving_default"](tf.constant(["3141"]))
    assert len(answer["outputs"].numpy()[0].decode()) == 3
