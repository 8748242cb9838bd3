"""A board that a model fills step by step, as an animation.

::

    (example,) = Inspector.from_run(run).test_examples(1)
    save_animation(board_steps(example), Path("board.gif"))

Each cell gets its colour at the step at which it stops. Beside the model's board stands that of the
known algorithm, one round a step, where the problem has features of difficulty.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ut_tf.errors import UserError
from ut_tf.figures.style import in_style, new_figure, write

_PANEL = 3.2, 3.5
_DPI = 80
_MILLISECONDS, _LAST_MILLISECONDS = 700, 3000
_COLORS, _LIGHTEST, _DARKEST = "YlGnBu", 0.15, 0.6
_GIVEN, _WRONG = "#e8e8e8", "#c0392b"


class BoardSteps(NamedTuple):
    """The answers of a model to a board.

    Fields:
      rows, columns: of cells.
      given: the text of each cell, empty where it is blank, [cells].
      answers: the text of each cell after each step, [steps][cells].
      stopped: the last step that changed each cell: its ponder time where cells halt, else the
        first step from which on its answer stays, [cells].
      target: the right text of each cell, or empty: unknown.
      rounds: those of the known algorithm until each cell is known, -1 where it never is, [cells],
        or None.
    """

    rows: int
    columns: int
    given: Sequence[str]
    answers: Sequence[Sequence[str]]
    stopped: Sequence[int]
    target: str
    rounds: Sequence[int] | None


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
    answers = [[step[cell][0]["text"] for cell in cells] for step in predictions]
    positions = [part["positions"][cell] for cell in cells]
    times = [round(position["ponder_time"]) for position in positions]
    target = "".join((example["target"] or "").split())
    rounds = [position.get("difficulty") for position in positions]
    return BoardSteps(
        board["rows"],
        board["columns"],
        [position["text"].strip(".") for position in positions],
        answers,
        times if len(set(times)) > 1 else _final_steps(answers),
        target if len(target) == len(cells) else "",
        None if None in rounds else rounds,
    )


def _final_steps(answers: Sequence[Sequence[str]]) -> list[int]:
    """The first step from which on the answer of each cell stays, from 1."""
    table = np.array(answers)
    differs = table != table[-1]
    numbers = np.arange(1, len(table) + 1)[:, None]
    return (np.where(differs, numbers, 0).max(0) + 1).tolist()  # type: ignore[no-any-return]


def save_animation(steps: BoardSteps, path: Path) -> None:
    """Writes the steps as an animated GIF, a frame for each.

    Raises:
      UserError: matplotlib is missing, or the file cannot be written.
    """
    figure, axes = new_figure(columns=1 if steps.rounds is None else 2, panel=_PANEL)
    from PIL import Image

    frames = []
    for step in range(len(steps.answers) + 1):
        with in_style():
            _draw_model(axes[0], steps, step)
            if steps.rounds is not None:
                _draw_rounds(axes[1], steps, step)
            figure.set_dpi(_DPI)
            frames.append(Image.fromarray(_pixels(figure)).quantize(64))
    durations = [_MILLISECONDS] * (len(frames) - 1) + [_LAST_MILLISECONDS]
    image = io.BytesIO()
    options = {"save_all": True, "append_images": frames[1:], "duration": durations, "loop": 0}
    frames[0].save(image, format="GIF", optimize=True, **options)
    write(path, image.getvalue())


def _pixels(figure: Any) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _draw_model(axes: Any, steps: BoardSteps, step: int) -> None:
    texts = steps.answers[step - 1] if step else [""] * len(steps.given)
    colors, shown = [], []
    for given, text, right, stopped in zip(
        steps.given, texts, steps.target or texts, steps.stopped, strict=True
    ):
        ink = "black" if text == right else _WRONG
        shown.append((given, "bold", "black") if given else (text, "normal", ink))
        colors.append(_GIVEN if given else _color(steps, stopped) if stopped <= step else "white")
    _draw(axes, steps, f"model, step {step} of {len(steps.answers)}", colors, shown)


def _draw_rounds(axes: Any, steps: BoardSteps, step: int) -> None:
    colors, shown = [], []
    for given, right, number in zip(
        steps.given, steps.target or [""] * len(steps.given), steps.rounds or (), strict=True
    ):
        is_known = 0 <= number <= step
        shown.append((given, "bold", "black") if given else (right * is_known, "normal", "black"))
        colors.append(_GIVEN if given else _color(steps, number) if is_known else "white")
    _draw(axes, steps, f"known after {step} round{'s' * (step != 1)}", colors, shown)


def _color(steps: BoardSteps, number: int) -> Any:
    import matplotlib

    share = (number - 1) / max(1, len(steps.answers) - 1)
    return matplotlib.colormaps[_COLORS](_LIGHTEST + (_DARKEST - _LIGHTEST) * share)


def _draw(
    axes: Any,
    steps: BoardSteps,
    title: str,
    colors: Sequence[Any],
    shown: Sequence[tuple[str, str, str]],
) -> None:
    """Draws the cells: their colours, and their texts with weight and ink."""
    axes.clear()
    axes.set(xlim=(0, steps.columns), ylim=(steps.rows, 0), aspect="equal", title=title)
    axes.axis("off")
    for cell, (color, (text, weight, ink)) in enumerate(zip(colors, shown, strict=True)):
        row, column = divmod(cell, steps.columns)
        axes.fill(
            [column, column + 1, column + 1, column],
            [row, row, row + 1, row + 1],
            facecolor=color,
            edgecolor="#888888",
        )
        axes.text(
            column + 0.5,
            row + 0.55,
            text,
            color=ink,
            weight=weight,
            ha="center",
            va="center",
            size=14 if steps.rows <= 9 else 8,
        )
