"""What users run: training, decoding and export with TensorFlow's own defaults, in a process of its
own. The other tests run on one thread, and graphs as they were traced.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SETS = {
    "universal_transformer": ("ut_tiny", "num_steps=2,num_heads=2"),
    "halting": ("ut_tiny", "halting=basic,num_steps=2,num_heads=2"),
    "transformer": ("transformer_tiny", "num_layers=1,num_heads=2"),
    "lstm": ("lstm_attention_tiny", "num_layers=1"),
}
LINES = ["314", "27"]
PROGRAM = """
import json, sys
import tensorflow as tf
from ut_tf.bin import decoder, exporter, trainer

train, decode, export, exported, lines = json.loads(sys.argv[1])
assert trainer.main(train) == decoder.main(decode) == exporter.main(export) == 0
answers = tf.saved_model.load(exported).signatures["serving_default"](inputs=tf.constant(lines))
options = tf.config.optimizer.get_experimental_options()
assert not options.get("disable_meta_optimizer") and not tf.config.functions_run_eagerly()
print(json.dumps([text.decode() for text in answers["outputs"].numpy()]))
"""
# What conftest.py sets for the tests alone.
FOR_TESTS = ("XLA_FLAGS", "UT_TF_TRACEBACK", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


@pytest.mark.parametrize(
    "model",
    [
        "universal_transformer",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("halting", "transformer", "lstm")),
    ],
)
def test_a_model_is_trained_decoded_and_exported(model: str, tmp_path: Path) -> None:
    hparams_set, sizes = SETS[model]
    run, greedy = f"--output_dir={tmp_path}/run", "--decode_hparams=beam_size=1,extra_length=2"
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    data = "max_length=5,train_examples=64,validation_length=5,validation_examples=8"
    train = [
        *("--problem=algorithmic_copy_decimal40", f"--hparams_set={hparams_set}", run),
        *(f"--problem_args={data}", "--train_steps=2", f"--data_dir={tmp_path}/data"),
        f"--hparams=hidden_size=16,{sizes},batch_size=64,max_length=8",
    ]
    decode = [run, f"--decode_from_file={tmp_path}/lines.txt", f"--decode_to_file={tmp_path}/out"]
    export = [run, f"--export_dir={tmp_path}/export", "--signatures=serving_default", "--nowarmup"]
    arguments = [train, [*decode, greedy], [*export, greedy], f"{tmp_path}/export/1", LINES]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(arguments)],
        env={name: value for name, value in os.environ.items() if name not in FOR_TESTS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "step 2" in done.stderr
    written = (tmp_path / "out").read_text().splitlines()
    assert len(written) == len(LINES) and json.loads(done.stdout.splitlines()[-1]) == written
