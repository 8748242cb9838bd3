"""The memory of an update does not grow with its steps without gradient."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("peak_memory.py")


def peak(overrides: str) -> float:
    """The peak memory in MB of a process that trains."""
    command = [sys.executable, str(SCRIPT), overrides]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [True, False])
def test_memory_is_flat_in_the_steps_without_gradient(drawn: bool) -> None:
    def depth(steps: int) -> str:
        if not drawn:
            return f"num_steps={steps}"
        return f"train_depth=uniform,train_depth.min={steps},train_depth.max={steps}"

    few, many = (peak(f"{depth(steps)},backprop_steps=4") for steps in (8, 64))
    assert many == pytest.approx(few, rel=0.05)
    # What the steps with gradient keep is seen by this measure.
    assert peak(f"{depth(16)},backprop_steps=16") > 1.2 * few
