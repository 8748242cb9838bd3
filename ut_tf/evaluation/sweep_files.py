"""The files of a sweep in a run directory: its points as JSON, and as a table in CSV."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ut_tf.errors import UserError
from ut_tf.storage.files import write_text


def write_sweep(
    output_dir: Path,
    names: tuple[str, str],
    values: Mapping[str, Any],
    columns: Sequence[str],
    points: Sequence[Any],
) -> None:
    """Writes a sweep.

    Args:
      output_dir: a run directory.
      names: of the JSON and of the CSV file in it.
      values: the sweep as plain values.
      columns: fields of the points that are columns before their metrics.
      points: with a field `metrics`.

    Raises:
      UserError: a file cannot be written.
    """
    metrics = sorted({name for point in points for name in point.metrics})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, *metrics])
    for point in points:
        fields = [getattr(point, name) for name in columns]
        writer.writerow([*fields, *(point.metrics.get(name) for name in metrics)])
    contents = (f"{json.dumps(values, indent=2, allow_nan=False)}\n", text.getvalue())
    for name, content in zip(names, contents, strict=True):
        try:
            write_text(output_dir / name, content)
        except OSError as error:
            raise UserError(
                f"{output_dir / name} cannot be written: {error.strerror or error}; change the"
                " folder's permissions."
            ) from error


def plain_point(point: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Plain values of a point, ready for JSON: what is not finite is None."""
    fields = {name: _plain(getattr(point, name)) for name in columns}
    return {**fields, "metrics": {name: _plain(at) for name, at in sorted(point.metrics.items())}}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
