"""Run directories that are finished: what ut-trainer and ut-eval write, written here by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.bin.stub_runs import evaluate, stub_run
from ut_tf.storage.processes import Point, TrainingProcess, write_processes

PROCESSOR = {"model": "Some CPU", "flags": ["avx2", "avx512f"], "cores": 2}
VERSIONS = {"python": "3.11.7", "ut_tf": "0.5.0", "tensorflow": "2.21.0", "keras": "3.15.1"}


def finished_run(
    folder: Path,
    problem: str,
    metrics: dict[str, float | None],
    validation: float = 1.0,
    seed: int = 0,
    hparams_set: str = "ut_babi",
    direction: str = "min",
    ended: str = "train_steps",
    **more: Any,
) -> Path:
    """Returns the folder of a run whose checkpoint of step 100 validation chose."""
    stub_run(
        folder,
        problem,
        hparams_set,
        seed,
        overrides=more.pop("overrides", ""),
        problem_args=more.pop("problem_args", None),
    )
    (folder / "checkpoints" / "best.json").write_text('{"step": 100}')
    points = [{"kind": "train", "step": step, "loss": 1 / step} for step in range(10, 101, 10)]
    points += [{"kind": "eval", "step": step, "error": 100 / step} for step in (50, 100)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    process = TrainingProcess(
        "2026-01-01T00:00:00+00:00",
        begun_at=0,
        train_steps=100,
        ended=ended,
        points=(Point(50, 60.0, 100.0), Point(100, 120.0, 210.0)),
        processor=PROCESSOR,
        devices="the CPU",
        versions=VERSIONS,
        commit="a" * 40,
    )
    write_processes(folder, [process])
    evaluate(folder, metrics, validation, direction, **{"examples": {"": 1000}, **more})
    return folder
