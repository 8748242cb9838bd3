"""huginn_tiny and its partners: equal sizes by the library's own counts, and a whole life."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ut_tf.bin import decoder, exporter, trainer
from ut_tf.factories import make_hparams, make_model
from ut_tf.problem_spec import ProblemSpec
from ut_tf.storage.checkpoints import CheckpointStore
from ut_tf.training.plan import BatchShape, RandomTraining, graph_flop

SPEC = ProblemSpec("none", "tokens", 0, 1000)
SMALL = "hidden_size=16,filter_size=24,num_heads=2,batch_size=128,eval_frequency=3,max_length=16"


def test_the_partner_of_equal_parameters_has_as_many() -> None:
    counts = [
        make_model(make_hparams(name, ""), SPEC, 0).count_params()
        for name in ("huginn_tiny", "huginn_tiny_equal_parameters")
    ]
    # The embedding, which all have, is left out.
    own = [count - 1000 * 128 for count in counts]
    assert own[1] == pytest.approx(own[0], rel=0.05)


@pytest.mark.slow
def test_updates_of_the_partner_of_equal_flop_have_as_many() -> None:
    batch = BatchShape(16, 0, 128)
    found = {}
    for name in ("huginn_tiny", "huginn_tiny_equal_flop", "huginn_tiny_equal_parameters"):
        trained = RandomTraining(make_hparams(name, ""), SPEC, tf.distribute.get_strategy())
        found[name] = graph_flop(*trained.graph(batch))
    first, equal, cheap = found.values()
    assert equal == pytest.approx(first, rel=0.05) and cheap < 0.5 * first


@pytest.mark.slow
def test_trains_resumes_writes_and_is_exported(tmp_path: Path, capsys: Any) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\na dog ran to the house\n" * 40)

    def train(output_dir: Path, steps: int) -> None:
        flags = [
            "--problem=lm_files",
            f"--problem_args=source_files={text},window=16,vocab_size=300",
            "--hparams_set=huginn_tiny",
            f"--hparams={SMALL}",
            f"--output_dir={output_dir}",
            f"--data_dir={tmp_path}/data",
            f"--tmp_dir={tmp_path}/tmp",
            "--num_gpus=0",
            f"--train_steps={steps}",
        ]
        assert trainer.main(flags) == 0

    train(tmp_path / "whole", 6)
    train(tmp_path / "parts", 3)
    train(tmp_path / "parts", 6)
    kept = [_weights(tmp_path / name) for name in ("whole", "parts")]
    assert kept[0].keys() == kept[1].keys() and len(kept[0]) > 50
    for name, values in kept[0].items():
        np.testing.assert_array_equal(values, kept[1][name], err_msg=name)

    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the cat\na dog ran\n")
    capsys.readouterr()
    run = f"--output_dir={tmp_path / 'parts'}"
    assert decoder.main([run, f"--prompt_file={prompts}", "--decode_hparams=max_length=8"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert exporter.main([run, f"--export_dir={tmp_path / 'export'}"]) == 0
    assert (tmp_path / "export" / "1" / "saved_model.pb").exists()


def _weights(output_dir: Path) -> dict[str, Any]:
    """All numbers of the checkpoint of step 6."""
    reader = tf.train.load_checkpoint(str(CheckpointStore(output_dir).path(6) / "variables"))
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("_")]
    return {name: reader.get_tensor(name) for name in names}
