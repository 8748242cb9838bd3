"""A board that a model fills step by step, as an animation.

::

    (example,) = Inspector.from_run(run).test_examples(1)
    save_animation(board_steps(example), Path("board.gif"))

Each cell gets its colour at the step at which it stops: light ones stop early. Beside the model's
board stands that of the known algorithm, one round a step, where the problem has features of
difficulty. Boxes have lines around them, walls of mazes are filled.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ut_tf.errors import UserError, counted
from ut_tf.figures.style import in_style, new_figure, write

_BLANK, _WALL = ".", "#"
_PANEL, _LEGEND = 3.2, 0.6
_DPI, _SHADES = 100, 128
_MILLISECONDS, _FEWEST_MILLISECONDS, _LAST_MILLISECONDS = 800, 150, 3000
_ALL_MILLISECONDS = 16_000
_COLORS, _LIGHTEST, _DARKEST = "YlGnBu", 0.15, 0.6
_GIVEN, _WRONG, _CHANGED, _LINE = "#e4e4e4", "#c0392b", "#e67e22", "#b5b5b5"
_FILLED = "#454545"
_SMALL = 9
"""More cells in a row are shown without the numbers of their steps."""


class BoardSteps(NamedTuple):
    """The answers of a model to a board.

    Fields:
      rows, columns: of cells.
      box_rows, box_columns: of the cells in a box; those of the board where there are no boxes.
      given: the text of each cell, empty where it is blank, [cells].
      answers: the text of each cell after each step, [steps][cells].
      stopped: the last step that changed each cell: its ponder time where cells halt, else the
        first step from which on its answer stays, [cells].
      halts: whether cells halt.
      target: the right text of each cell, or empty: unknown.
      rounds: those of the known algorithm until each cell is known, -1 where it never is, [cells],
        or None.
    """

    rows: int
    columns: int
    box_rows: int
    box_columns: int
    given: Sequence[str]
    answers: Sequence[Sequence[str]]
    stopped: Sequence[int]
    halts: bool
    target: str
    rounds: Sequence[int] | None

    @property
    def longest(self) -> int:
        """The steps of the model or the rounds of the algorithm, whichever are more: a color means
        the same number on both boards.
        """
        return max(len(self.answers), *(self.rounds or (0,)))


def board_steps(example: Mapping[str, Any]) -> BoardSteps:
    """Returns the steps of an example of a document of insights.

    Raises:
      UserError: the example has no board, or its model answers at no step.
    """
    part = example["thoughts"][0]["parts"][0]
    board, predictions = part["board"], part["predictions"]
    cells = [n for n, position in enumerate(part["positions"]) if position["role"] == "cell"]
    if board is None or predictions is None or len(cells) != board["rows"] * board["columns"]:
        raise UserError(
            "an animation shows a board that is filled step by step: this example has none; use a"
            " run of a problem with boards, such as sudoku_4x4."
        )
    answers = [
        [step[cell][0]["text"] if step[cell] else "" for cell in cells] for step in predictions
    ]
    positions = [part["positions"][cell] for cell in cells]
    times = [round(position["ponder_time"]) for position in positions]
    target = "".join((example["target"] or "").split())
    target = target if len(target) == len(cells) else ""
    rounds = [position.get("difficulty") for position in positions]
    halts = len(set(times)) > 1
    return BoardSteps(
        board["rows"],
        board["columns"],
        board["box_rows"] or board["rows"],
        board["box_columns"] or board["columns"],
        _given([position["text"] for position in positions], target),
        answers,
        times if halts else _final_steps(answers),
        halts,
        target,
        None if None in rounds else rounds,
    )


def _given(texts: Sequence[str], target: str) -> list[str]:
    """The texts of the cells, empty where they are blank: a point, or what is answered with
    something else.
    """
    pairs = zip(texts, target, strict=True) if target else ()
    blank = {_BLANK, *(text for text, right in pairs if text != right)}
    return ["" if text in blank else text for text in texts]


def _final_steps(answers: Sequence[Sequence[str]]) -> list[int]:
    """The first step from which on the answer of each cell stays, from 1."""
    table = np.array(answers)
    differs = table != table[-1]
    numbers = np.arange(1, len(table) + 1)[:, None]
    return (np.where(differs, numbers, 0).max(0) + 1).tolist()  # type: ignore[no-any-return]


def save_animation(steps: BoardSteps, path: Path) -> None:
    """Writes the steps as an animated GIF, a frame for each, and for rounds beyond them.

    Raises:
      UserError: matplotlib is missing, or the file cannot be written.
    """
    panels = 1 if steps.rounds is None else 2
    figure, axes = new_figure(columns=panels, panel=(_PANEL, _PANEL + _LEGEND))
    from PIL import Image

    with in_style():
        figure.set_dpi(_DPI)
        figure.set_layout_engine(None)
        below = _LEGEND / (_PANEL + _LEGEND)
        figure.subplots_adjust(0.02, below, 0.98, 0.92, 0.06)
        _draw_legend(figure, steps, panels)
    frames = []
    for step in range(steps.longest + 1):
        with in_style():
            _draw_model(axes[0], steps, step)
            if steps.rounds is not None:
                _draw_rounds(axes[1], steps, step)
            frames.append(_pixels(figure))
    # With one palette what stays the same from frame to frame is stored once.
    every = Image.fromarray(np.concatenate(frames))
    palette = every.quantize(_SHADES, Image.Quantize.MAXCOVERAGE)
    images = [
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in frames
    ]
    each = min(_MILLISECONDS, max(_FEWEST_MILLISECONDS, _ALL_MILLISECONDS // len(frames)))
    durations = [each] * (len(frames) - 1) + [_LAST_MILLISECONDS]
    image = io.BytesIO()
    options = {"save_all": True, "append_images": images[1:], "duration": durations, "loop": 0}
    images[0].save(image, format="GIF", optimize=True, **options)
    write(path, image.getvalue())


def _pixels(figure: Any) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


class _Cell(NamedTuple):
    """How a cell is shown: its colour, its text with weight and ink, the small number of its step,
    and whether its answer has changed.
    """

    color: Any
    text: str
    weight: str = "normal"
    ink: str = "black"
    number: str = ""
    is_changed: bool = False


def _given_cell(text: str) -> _Cell:
    return _Cell(_FILLED, "") if text == _WALL else _Cell(_GIVEN, text, "bold")


def _draw_model(axes: Any, steps: BoardSteps, step: int) -> None:
    count = len(steps.answers)
    is_over, step = step > count, min(step, count)
    blank = [""] * len(steps.given)
    texts = steps.answers[step - 1] if step else blank
    before = steps.answers[step - 2] if step > 1 and not is_over else texts
    cells = []
    rows = zip(steps.given, texts, before, steps.target or texts, steps.stopped, strict=True)
    for given, text, old, right, stopped in rows:
        has_stopped = stopped <= step
        color = _color(stopped, steps.longest) if has_stopped else "white"
        ink = "black" if text == right else _WRONG
        number = str(stopped) * has_stopped
        cell = _Cell(color, text, "normal", ink, number, text != old)
        cells.append(_given_cell(given) if given else cell)
    title = f"model, after step {step} of {count}" if step else "model, before the first step"
    wrong = sum(text != right for text, right in zip(texts, steps.target, strict=False))
    if step == count and steps.target:
        title += f": {counted(wrong, 'wrong cell')}" if wrong else ": all right"
    _draw(axes, steps, title, cells)


def _draw_rounds(axes: Any, steps: BoardSteps, step: int) -> None:
    rounds = steps.rounds or ()
    count = max(rounds)
    cells = []
    rows = zip(steps.given, steps.target or [""] * len(steps.given), rounds, strict=True)
    for given, right, number in rows:
        is_known = 0 <= number <= step
        known = _Cell(_color(number, steps.longest), right, number=str(number))
        cells.append(_given_cell(given) if given else known if is_known else _Cell("white", ""))
    after = f"after {counted(min(step, count), 'round')}" if step else "before the first round"
    title = f"algorithm, {after}"
    if step >= count:
        never = sum(number < 0 for number in rounds)
        title += f": {counted(never, 'cell')} not found" if never else ": all known"
    _draw(axes, steps, title, cells)


def _color(number: int, count: int) -> Any:
    import matplotlib

    share = (number - 1) / max(1, count - 1)
    return matplotlib.colormaps[_COLORS](_LIGHTEST + (_DARKEST - _LIGHTEST) * share)


def _draw_legend(figure: Any, steps: BoardSteps, panels: int) -> None:
    """Says what colours mean, below the boards."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.patches import Patch

    has_numbers = steps.columns <= _SMALL

    def patch(color: Any, edge: str = _LINE, width: float = 0.8) -> Any:
        return Patch(facecolor=color, edgecolor=edge, linewidth=width)

    stopped = "stopped" if steps.halts else "final"
    stopped += " from the step in the corner on" if has_numbers else ": light early, dark late"
    shown = [
        (patch(_GIVEN), "given"),
        (patch("white", _CHANGED, 1.6), "changed in this step"),
        (tuple(patch(_color(n, 3)) for n in (1, 2, 3)), stopped),
    ]
    if _WALL in steps.given:
        shown.append((patch(_FILLED), "wall"))
    if steps.target:
        shown.append((Patch(alpha=0), "red: wrong"))
    handles, labels = zip(*shown, strict=True)
    legend = figure.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.01, 0.0),
        ncols=panels,
        fontsize=8,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
    )
    for text in legend.get_texts():
        if text.get_text() == "red: wrong":
            text.set_color(_WRONG)


def _draw(axes: Any, steps: BoardSteps, title: str, cells: Sequence[_Cell]) -> None:
    axes.clear()
    margin = 0.04
    axes.set(
        xlim=(-margin, steps.columns + margin), ylim=(steps.rows + margin, -margin), aspect="equal"
    )
    axes.set_title(title)
    axes.axis("off")
    size = 110 / max(steps.rows, steps.columns)
    for place, cell in enumerate(cells):
        row, column = divmod(place, steps.columns)
        edge = _FILLED if cell.color == _FILLED else _LINE
        _draw_square(axes, row, column, cell.color, edge, 0.8)
        if cell.is_changed:
            _draw_square(axes, row + 0.06, column + 0.06, "none", _CHANGED, 1.6, 0.88)
        text = "" if cell.text == _BLANK else cell.text
        style = {"ha": "center", "va": "center", "weight": cell.weight, "color": cell.ink}
        axes.text(column + 0.5, row + 0.52, text, size=min(size, 16), **style)
        if steps.columns <= _SMALL and cell.number:
            axes.text(column + 0.94, row + 0.09, cell.number, size=6, ha="right", va="top")
    _draw_boxes(axes, steps)


def _draw_square(
    axes: Any, row: float, column: float, color: Any, edge: str, width: float, side: float = 1.0
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle((column, row), side, side, facecolor=color, edgecolor=edge, linewidth=width)
    )


def _draw_boxes(axes: Any, steps: BoardSteps) -> None:
    """Draws the lines around the boxes, or around the board."""
    style = {"color": _FILLED, "linewidth": 1.6, "solid_capstyle": "projecting"}
    for row in range(0, steps.rows + 1, steps.box_rows):
        axes.plot([0, steps.columns], [row, row], **style)
    for column in range(0, steps.columns + 1, steps.box_columns):
        axes.plot([column, column], [0, steps.rows], **style)
