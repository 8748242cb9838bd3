"""The animation of a board: where cells stop, what the known algorithm knows, its frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ut_tf.errors import UserError
from ut_tf.figures.board_steps import board_steps, save_animation

# A cell that is given, one that is final after step 2, and two after step 1.
ANSWERS = ["1143", "1243", "1243"]


def example(
    times: tuple[int, ...] = (3, 3, 3, 3), rounds: tuple[int, ...] = (), texts: str = "1..."
) -> dict[str, Any]:
    positions = [
        {"text": text, "role": "cell", "ponder_time": float(time)}
        for text, time in zip(texts, times, strict=True)
    ]
    for position, difficulty in zip(positions, rounds, strict=False):
        position["difficulty"] = difficulty
    predictions = [[[{"text": text, "probability": 1.0}] for text in step] for step in ANSWERS]
    part = {
        "positions": positions,
        "predictions": predictions,
        "board": {"rows": 2, "columns": 2, "box_rows": None, "box_columns": None},
    }
    return {"target": "12\n43", "thoughts": [{"parts": [part]}]}


def test_a_cell_stops_where_it_halts_or_its_answer_stays() -> None:
    steps = board_steps(example())
    assert steps.given == ["1", "", "", ""] and steps.target == "1243" and steps.rounds is None
    assert steps.stopped == [1, 2, 1, 1] and not steps.halts
    halting = board_steps(example((1, 3, 2, 1)))
    assert halting.stopped == [1, 3, 2, 1] and halting.halts
    assert board_steps(example(rounds=(0, 2, 1, 1))).rounds == [0, 2, 1, 1]


def test_what_is_answered_otherwise_is_blank() -> None:
    assert board_steps(example(texts="1203")).given == ["1", "2", "", "3"]
    # Of a board whose answer is unknown only points are.
    assert board_steps({**example(texts="10.4"), "target": None}).given == ["1", "0", "", "4"]


def test_a_gif_has_a_frame_for_each_step_and_round_and_one_before(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    sizes = []
    for name, rounds, count in (("alone.gif", (), 4), ("beside.gif", (0, 5, 1, 1), 6)):
        save_animation(board_steps(example(rounds=rounds)), tmp_path / name)
        with image.open(tmp_path / name) as frames:
            assert frames.n_frames == count
            sizes.append(frames.size)
    assert sizes[1][0] == 2 * sizes[0][0] and sizes[1][1] == sizes[0][1]
    with pytest.raises(UserError, match=r"cannot be written"):
        save_animation(board_steps(example()), tmp_path / "alone.gif" / "board.gif")


def test_walls_are_filled_and_given_cells_grey(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    maze = {**example(texts="#3.."), "target": "#343"}
    save_animation(board_steps(maze), tmp_path / "maze.gif")
    with image.open(tmp_path / "maze.gif") as frames:
        first = frames.convert("RGB")
    width, height = first.size
    wall, given, blank = (
        max(first.getpixel((int(width * x), int(height * y))))
        for x, y in ((0.3, 0.15), (0.6, 0.15), (0.3, 0.5))
    )
    assert wall < 100 < given < 240 < blank


def test_what_has_no_board_is_refused() -> None:
    story = example()
    story["thoughts"][0]["parts"][0]["board"] = None
    with pytest.raises(UserError, match=r"^an animation shows a board"):
        board_steps(story)
