"""The common style of all figures, and their files.

::

    figure, (left, right) = new_figure(columns=2)
    left.plot([1, 2], [3.0, 4.0])
    legend_outside(figure)
    save(figure, Path("runs/copy/figures/accuracy"))  # accuracy.svg, .png and .pdf

Figures are made without pyplot, so that nothing of matplotlib's global state changes. Text in SVG
and PDF stays text. Lines differ in color and mark, for print without color.
"""

import importlib.util
import io
import math
import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ut_tf.errors import file_errors
from ut_tf.packages import check_package
from ut_tf.storage.files import write_bytes

# Okabe's and Ito's, which people with any form of color blindness tell apart, without the yellow,
# which is faint on paper; the last two are Tol's.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#777777")
PUBLISHED_COLOR = "#9a9a9a"
_PANEL = 4.6, 3.2
# That a panel's height holds.
_LETTERS = 36
_STYLE = {
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.size": 9,
    # Letters, not drawings of them.
    "pdf.fonttype": 42,
    "grid.color": "#e3e3e3",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "ut-tf",
    # Names of classes and folders may have dollar signs.
    "text.parse_math": False,
}


def is_installed() -> bool:
    """Whether matplotlib can be imported."""
    return importlib.util.find_spec("matplotlib") is not None


def check_installed() -> None:
    """Raises UserError where matplotlib is missing."""
    check_package("matplotlib", "figures need")


def new_figure(
    rows: int = 1, columns: int = 1, panel: tuple[float, float] = _PANEL
) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row.

    Args:
      rows, columns: of panels.
      panel: width and height of a panel, in inches.

    Raises:
      UserError: matplotlib is missing.
    """
    check_installed()
    from matplotlib.figure import Figure

    with in_style():
        size = panel[0] * columns, panel[1] * rows
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
    for panel_axes in axes.flat:
        panel_axes.set_axisbelow(True)
    return figure, list(axes.flat)


def new_panels(
    count: int, columns: int = 2, panel: tuple[float, float] = _PANEL
) -> tuple[Any, list[Any]]:
    """A figure of so many panels, at most so many columns, and their axes; as of ``new_figure``."""
    columns = min(count, columns)
    figure, axes = new_figure(math.ceil(count / columns), columns, panel)
    for axis in axes[count:]:
        axis.remove()
    return figure, axes[:count]


def line_style(number: int) -> dict[str, Any]:
    """Color, mark and dashes of a figure's line of that number."""
    again, place = divmod(number, len(COLORS))
    dashes = ("-", "--", "-.", ":")[again % 4]
    return {"color": COLORS[place], "marker": "osv^DPX<"[place], "ls": dashes, "markersize": 4}


def name_upright(axis: Any, text: str) -> None:
    """Names the upright axis of a panel, in lines that its height holds."""
    axis.set_ylabel(textwrap.fill(text, _LETTERS))


def draw_band(axis: Any, at: Sequence[float], low: Any, high: Any, color: str) -> None:
    """Fills what lies between two lines."""
    axis.fill_between(at, low, high, color=color, alpha=0.18, linewidth=0)


def legend_outside(figure: Any) -> None:
    """Draws one legend below all panels, with each label once."""
    handles = {
        label: handle
        for axis in figure.axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if not handles:
        return
    # About 14 letters of this size, and 6 for the line, fit an inch.
    columns = int(14 * figure.get_figwidth() // (6 + max(map(len, handles))))
    with in_style():
        figure.legend(
            handles.values(),
            handles,
            loc="outside lower center",
            ncols=min(max(columns, 1), len(handles)),
            fontsize=8,
        )


def in_style() -> AbstractContextManager[None]:
    """A context in which new artists have the common style."""
    import matplotlib

    context: AbstractContextManager[None] = matplotlib.rc_context(_STYLE)
    return context


def as_svg(figure: Any) -> str:
    """The figure as an SVG document, the same bytes for the same figure."""
    text = io.StringIO()
    with in_style():
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def as_image(figure: Any, form: str = "png") -> bytes:
    """The figure as a PNG or PDF file."""
    image = io.BytesIO()
    unsaid = {"png": "Software", "pdf": "CreationDate"}[form]
    with in_style():
        figure.savefig(image, format=form, dpi=150, metadata={unsaid: None})
    return image.getvalue()


IMAGES = (".svg", ".png", ".pdf")


def save(figure: Any, path: Path) -> list[Path]:
    """Writes a figure as `path` with each ending of ``IMAGES``, or as `path` alone where that ends
    with one.

    Returns:
      The files written.

    Raises:
      UserError: a file cannot be written.
    """
    named = path.suffix in IMAGES
    files = [path] if named else [path.with_name(f"{path.name}{end}") for end in IMAGES]
    for file in files:
        svg = file.suffix == ".svg"
        write(file, as_svg(figure).encode() if svg else as_image(figure, file.suffix[1:]))
    return files


def write(file: Path, image: bytes) -> None:
    """Writes an image, and the folders that it is to be in.

    Raises:
      UserError: it cannot be written.
    """
    with file_errors(file, "name another place", "written"):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, image)
