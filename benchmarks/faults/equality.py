"""In which ways what a killed command left differs from what an undisturbed one left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from processes import in_child


def different_runs(whole: Path, other: Path) -> list[str]:
    """In which ways a run that was killed is not the one that was not; none: it is the same."""
    return [
        *different_names(whole, other),
        *([] if metrics_of(whole) == metrics_of(other) else ["metrics.jsonl differs"]),
        *different_checkpoints(whole, other),
    ]


def metrics_of(output_dir: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without the speed and the checksum, which changes with it.

    Raises:
      ValueError: a line is damaged.
    """
    from ut_tf.storage.json_lines import read_object

    path = output_dir / "metrics.jsonl"
    lines = [read_object(line) for line in path.read_bytes().splitlines()]
    if None in lines:
        raise ValueError(f"{path}:{lines.index(None) + 1} is damaged")
    return [
        {name: value for name, value in line.items() if name != "tokens_per_second"}
        for line in lines
        if line is not None
    ]


def different_names(whole: Path, other: Path) -> list[str]:
    expected, found = names_in(whole), names_in(other)
    return [
        *(f"{name} is missing" for name in sorted(expected - found)),
        *(f"{name} is left over" for name in sorted(found - expected)),
    ]


def names_in(folder: Path) -> set[str]:
    """The names of all files; TensorBoard's are named after times and processes."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if not name.startswith("tensorboard/")}


def different_checkpoints(whole: Path, other: Path, last: int = 0) -> list[str]:
    """What differs in the checkpoints; in the `last` of them alone where that is not 0."""
    differences = []
    for checkpoint in sorted((whole / "checkpoints").glob("step-*"))[-last:]:
        twin = other / "checkpoints" / checkpoint.name
        if not twin.is_dir():
            differences.append(f"{checkpoint.name} is missing")
            continue
        # The manifest holds the SHA-256 of all other files.
        if (checkpoint / "manifest.json").read_bytes() == (twin / "manifest.json").read_bytes():
            continue
        if (checkpoint / "state.json").read_bytes() != (twin / "state.json").read_bytes():
            differences.append(f"{checkpoint.name}/state.json differs")
        changed = in_child(different_arrays, checkpoint, twin)
        differences.append(f"{checkpoint.name} differs in {changed or 'its bytes alone'}")
    best = "checkpoints/best.json"
    if (other / best).read_bytes() != (whole / best).read_bytes():
        differences.append("best.json differs")
    return differences


def different_arrays(checkpoint: Path, twin: Path) -> list[str]:
    """The names of the variables that differ in type, shape or any bit."""
    expected, found = arrays_of(checkpoint), arrays_of(twin)
    return sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))


def arrays_of(checkpoint: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The type, shape and bytes of each variable in a checkpoint's folder."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(checkpoint / "variables"))
    arrays = {}
    for name in sorted(reader.get_variable_to_shape_map()):
        value = reader.get_tensor(name)
        if hasattr(value, "tobytes"):
            arrays[name] = (str(value.dtype), value.shape, value.tobytes())
    return arrays
