"""Commands that use a checkpoint which a training removes as soon as it is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bin.tiny_runs import digits_run, save
from ut_tf import run_weights
from ut_tf.bin import eval as eval_command
from ut_tf.bin import exporter
from ut_tf.evaluation.exit_sweep import THRESHOLDS
from ut_tf.evaluation.records import read_records
from ut_tf.run import Run
from ut_tf.sharing.saving import save as save_model
from ut_tf.storage.checkpoints import CheckpointStore

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose checkpoint of step 100 goes as soon as it has been read; step 200 is there then,
    and the best.
    """
    run = digits_run(tmp_path / "run", steps=())
    save(run, (100,), {"middle/char_acc": 0.25, "loss": 2.0})
    store, real = CheckpointStore(run.output_dir), run_weights.read_checkpoint

    def read_checkpoint(*arguments: Any) -> Any:
        found = real(*arguments)
        if store.steps() == [100]:
            save(run, (200,), {"middle/char_acc": 0.5, "loss": 1.0})
            shutil.rmtree(store.path(100))
        return found

    monkeypatch.setattr(run_weights, "read_checkpoint", read_checkpoint)
    return run


@pytest.mark.parametrize(
    "flags",
    [
        ["--lengths=3", "--checkpoint=last"],
        pytest.param(["--lengths=3", "--figures={output_dir}/figures"], marks=pytest.mark.slow),
        pytest.param(["--lengths=3", "--checkpoint=100"], marks=pytest.mark.slow),
    ],
)
def test_ut_eval_keeps_its_work(run: Run, flags: Sequence[str]) -> None:
    assert eval_command.main([f"--output_dir={run.output_dir}", *flags]) == 0
    (record,) = read_records(run.output_dir)
    assert record.step == 100
    assert record.selection is not None and record.selection["value"] == 0.25


@pytest.mark.slow
def test_ut_eval_keeps_its_exit_sweep(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(THRESHOLDS, "state_difference", (1e6,))
    flags = [f"--output_dir={run.output_dir}", "--lengths=3", "--exit_sweep=state_difference"]
    assert eval_command.main(flags) == 0
    kept = json.loads((run.output_dir / "exit_sweep.json").read_text())
    assert kept["step"] == 100
    full, at_once = kept["points"]
    # With one step of depth the rule cannot change anything, unless its weights are others.
    assert at_once["metrics"] == full["metrics"]


@pytest.mark.slow
def test_what_is_stored_is_of_one_checkpoint(run: Run, tmp_path: Path) -> None:
    flags = [f"--output_dir={run.output_dir}", f"--export_dir={tmp_path / 'e'}"]
    assert exporter.main([*flags, "--signatures=serving_default"]) == 0
    summary = json.loads((tmp_path / "e" / "1" / "assets.extra" / "ut_tf.json").read_text())
    assert summary["checkpoint"]["step"] == 100
    save_model(run, tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert config["trained"]["step"] == 200
    assert config["trained"]["metrics"]["loss"] == 1.0
    assert "0.5" in (tmp_path / "saved" / "README.md").read_text()
