"""Run directories without checkpoints' weights: what ut-trainer and ut-eval write about a run,
written here by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ut_tf.factories import make_hparams


def stub_run(
    folder: Path,
    problem: str,
    hparams_set: str = "ut_babi",
    seed: int = 0,
    overrides: str = "",
    problem_args: dict[str, Any] | None = None,
    trained: bool = True,
    averaged: bool = False,
) -> Path:
    """Returns the folder of a run that was trained but not evaluated."""
    folder.mkdir(parents=True)
    hparams = make_hparams(hparams_set, overrides)
    config = {
        "format_version": 1,
        "problem": problem,
        "problem_args": problem_args or {},
        "hparams_set": hparams_set,
        "model": hparams.model,
        "hparams": hparams.to_dict(),
        "overrides": overrides,
        "seed": seed,
        "data_dir": "data",
        "tmp_dir": "tmp",
        "usr_dir": None,
        "spec": None,
    }
    (folder / "config.json").write_text(json.dumps(config))
    if trained:
        checkpoint = folder / "checkpoints" / "step-00000100"
        checkpoint.mkdir(parents=True)
        (checkpoint / "state.json").write_text(
            json.dumps({"step": 100, **({"averaged_steps": [50, 100]} if averaged else {})})
        )
    return folder


def evaluate(
    folder: Path,
    metrics: dict[str, float | None],
    validation: float | None = None,
    direction: str = "min",
    **more: Any,
) -> Path:
    """Adds the line that ut-eval would write; `validation` is what chose the checkpoint."""
    config = json.loads((folder / "config.json").read_text())
    selection = (
        None
        if validation is None
        else {"metric": "error", "direction": direction, "value": validation}
    )
    line = {
        "time": "2026-01-01T00:00:00+00:00",
        "problem": config["problem"],
        "hparams_set": config["hparams_set"],
        "seed": config["seed"],
        "checkpoint": "best",
        "step": 100,
        "split": "test",
        "metrics": metrics,
        "selection": selection,
        **more,
    }
    with (folder / "evaluations.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    return folder
