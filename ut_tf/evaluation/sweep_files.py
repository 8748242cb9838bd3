"""The files of a sweep in a run directory: its points as JSON, and as a table in CSV."""

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tabulate import tabulate

from ut_tf.errors import file_errors
from ut_tf.storage.files import write_text


class Sweep:
    """Base class of sweeps, dataclasses whose points have `metrics`.

    Attributes:
      stem: of the names of its files.
      about: its fields, besides points, that JSON has.
      columns: fields of the points that are columns before their metrics.
      points: in their order.
    """

    stem: ClassVar[str]
    about: ClassVar[tuple[str, ...]] = ("step",)
    columns: ClassVar[tuple[str, ...]]
    points: tuple[Any, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: what is not finite is None."""
        points = [
            {
                **{name: _plain(getattr(point, name)) for name in self.columns},
                "metrics": {name: _plain(at) for name, at in sorted(point.metrics.items())},
            }
            for point in self.points
        ]
        return {**{name: getattr(self, name) for name in self.about}, "points": points}

    def write(self, output_dir: Path, name: str = "") -> None:
        """Writes the points, with all metrics, as JSON and as CSV into a run directory.

        Args:
          output_dir: the run directory.
          name: of the files without their ends; empty: the sweep's stem.

        Raises:
          UserError: a file cannot be written.
        """
        metrics = sorted({name for point in self.points for name in point.metrics})
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.columns, *metrics])
        for point in self.points:
            fields = [getattr(point, name) for name in self.columns]
            fields += [point.metrics.get(name) for name in metrics]
            writer.writerow(map(_plain, fields))
        values = f"{json.dumps(self.to_dict(), indent=2, allow_nan=False)}\n"
        for end, content in ((".json", values), (".csv", text.getvalue())):
            path = output_dir / f"{name or self.stem}{end}"
            with file_errors(path, "change the folder's permissions", "written"):
                write_text(path, content)


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 0) -> str:
    """A table without lines, whose first `left` columns stand at the left."""
    sides = ["left" if column < left else "right" for column in range(len(header))]
    return tabulate(rows, header, tablefmt="plain", disable_numparse=True, colalign=sides)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
