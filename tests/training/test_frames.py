"""How deep the heart lies: the library's own frames from the command to gradient and product."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from ut_tf.bin import entry

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ut_tf", "bin", "problems", "hparams")
MOST_TO_GRADIENT = 8
MOST_TO_PRODUCT = 18


def _own_frames() -> list[str]:
    """Returns the functions of the library that are at work, the outermost first."""
    frames = [
        (Path(frame.filename), frame.name)
        for frame in traceback.extract_stack()
        if any(Path(frame.filename).is_relative_to(ROOT / folder) for folder in FOLDERS)
    ]
    return [f"{file.stem}.{name}" for file, name in frames]


@pytest.mark.usefixtures("eager")
def test_the_gradient_and_the_first_product_are_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, list[str]] = {}

    def watched(name: str, function: Callable[..., Any], within: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            frames = _own_frames()
            if name not in found and within in frames:
                found[name] = frames
            return function(*arguments, **options)

        return call

    gradient = watched("gradient", tf.GradientTape.gradient, "step._gradients")
    monkeypatch.setattr(tf.GradientTape, "gradient", gradient)
    for module, product in ((tf, "matmul"), (tf.linalg, "matmul"), (tf, "einsum")):
        function = getattr(module, product)
        monkeypatch.setattr(module, product, watched("product", function, "objective.sums"))
    words = [
        "--problem=prefix_sums_32",
        "--problem_args=max_length=5,train_examples=64,validation_length=6,validation_examples=8",
        "--hparams_set=ut_tiny",
        "--hparams=hidden_size=8,filter_size=8,num_heads=1,num_steps=2",
        "--train_steps=1",
        *(f"--{name}={tmp_path / name}" for name in ("data_dir", "tmp_dir", "output_dir")),
    ]
    monkeypatch.setattr("sys.argv", ["ut-trainer", *words])
    assert entry.trainer() == 0
    assert found["gradient"][0] == found["product"][0] == "entry.run"
    assert len(found["gradient"]) <= MOST_TO_GRADIENT, "\n".join(found["gradient"])
    assert len(found["product"]) <= MOST_TO_PRODUCT, "\n".join(found["product"])
