"""Mazes: walls, free cells, a start and a goal in, the path between them out, an answer at every
cell (the mazes of deep thinking, arXiv 2202.05826, with one symbol a cell).

"#" is a wall, "." free, "S" the start and "G" the goal; the answer repeats the board with "o" on
the path. Trained on boards of one side and judged on larger ones. Difficulty is the number of
rounds in which dead ends are filled: in each of them all free cells that have one way out at most.

How it works: a depth-first search in random order carves a spanning tree, so that one path leads
from a cell to another. In the split "loops" some walls are taken away as well, and every shortest
path is right. A board is of one split with all that are turned and mirrored, wherever start and
goal are.
"""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ut_tf.data.arguments import at_least
from ut_tf.data.problem import EvaluationSet
from ut_tf.data.split_of import belong
from ut_tf.errors import UserError
from ut_tf.problems.reasoning.codec import BoardCodec
from ut_tf.problems.reasoning.strings import Solved, Strings, StringSizes, StringTask
from ut_tf.problems.reasoning.sudoku_grids import turned_sums
from ut_tf.symbols import FIRST_SYMBOL_ID

SYMBOLS = "#.SGo"
LOOPS = "loops"
_WALL, _FREE, _START, _GOAL, _PATH = range(len(SYMBOLS))
# Sides of the larger boards that are judged, beyond that of training.
_BEYOND = (4, 12)

Boards = npt.NDArray[Any]


class Mazes(StringTask):
    """Square mazes, generated without end.

    Args:
      max_size: side of the boards of training in cells, walls included; an odd number.
      name: the problem's name, for messages.
      **sizes: see ``StringSizes``; by default mazes with 4 cells more a side choose the checkpoint.
    """

    symbols = SYMBOLS
    size_word = "side"
    unit = "cell"
    min_size = 5
    method = "aligned_valid"
    # There are as many groups as rounds, of a few mazes each.
    group_by = None
    argument_defaults: ClassVar[StringSizes] = {
        **StringTask.argument_defaults,
        "train_examples": 20_000,
    }
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test", LOOPS)

    def __init__(self, max_size: int = 9, *, name: str = "", **sizes: Unpack[StringSizes]) -> None:
        if sizes.get("disjoint_splits", True) and max_size == self.min_size:
            raise UserError(
                f"`max_size`={max_size}: all mazes of this side are the same, turned and mirrored,"
                " so that one split has all of them; set 7 or more, or disjoint_splits=false."
            )
        max_size = _odd("max_size", at_least(self.min_size, "max_size", max_size))
        beyond = sizes.get("validation_size") or max_size + _BEYOND[0]
        sizes["validation_size"] = _odd("validation_size", beyond)
        super().__init__(max_size, name or f"maze_{max_size}", **sizes)
        self.counts[LOOPS] = self.counts["test"]

    def sizes(self, draws: np.random.Generator, count: int) -> Strings:
        """Boards of one batch have one size."""
        return np.full(count, self.max_size)

    def draw(self, draws: np.random.Generator, sizes: Strings, width: int, split: str) -> Strings:
        side = _odd("length", width)
        boards = carved(draws, len(sizes), side)
        if split == LOOPS:
            boards = _with_loops(draws, boards)
        nodes = np.flatnonzero(np.add.outer(*[np.arange(side) % 2] * 2).ravel() == 2)
        order = draws.permuted(np.tile(nodes, [len(sizes), 1]), axis=1)
        strings = np.where(boards, _FREE, _WALL).reshape(len(sizes), -1)
        np.put_along_axis(strings, order[:, :1], _START, 1)
        np.put_along_axis(strings, order[:, 1:2], _GOAL, 1)
        return strings

    def belong(self, strings: Strings, split: str) -> npt.NDArray[np.bool_]:
        """A board is of the split of those that it is when it is turned and mirrored."""
        keys = turned_sums(math.isqrt(strings.shape[1]), strings != _WALL).min(1, keepdims=True)
        return belong(keys, split)

    def solve(self, strings: Strings) -> Solved:
        side = math.isqrt(strings.shape[1])
        symbols = strings.reshape(-1, side, side)
        free, ends = symbols != _WALL, symbols > _FREE
        left, rounds = free.copy(), np.zeros(symbols.shape, np.int64)
        for number in itertools.count(1):
            filled = left & ~ends & (_ways(left) <= 1)
            if not filled.any():
                break
            rounds[filled] = number
            left &= ~filled
        # What is left is a path where it has no loops.
        one_way = (_ways(left) * left).sum((1, 2)) == 2 * (left.sum((1, 2)) - 1)
        last = np.where(one_way, np.maximum(rounds.max((1, 2)), 1), -1)
        rounds = np.where(left & ~ends, last[:, None, None], rounds)
        path = left.copy()
        if not one_way.all():
            path[~one_way] = shortest_paths(symbols[~one_way])
        targets = np.where(path & ~ends, _PATH, symbols)
        return Solved(targets.reshape(strings.shape), rounds.reshape(strings.shape))

    def solves(self, features: Mapping[str, Any], answers: Any) -> Any:
        """Whether all that is given is kept, and the marked cells are a whole shortest path from
        start to goal, and nothing else.
        """
        side = tf.cast(tf.round(tf.sqrt(tf.cast(tf.shape(answers)[1], tf.float32))), tf.int32)
        given = tf.cast(features["inputs"], answers.dtype) - FIRST_SYMBOL_ID
        marked = answers == _PATH + FIRST_SYMBOL_ID
        kept = tf.where(given == _FREE, marked | (answers - FIRST_SYMBOL_ID == _FREE), False)
        kept |= (given != _FREE) & (answers - FIRST_SYMBOL_ID == given)
        boards = tf.reshape(given, [-1, side, side])
        ends = boards > _FREE
        # So few cells that lead to the goal have none beside the path.
        steps = 1 + tf.reduce_sum(tf.cast(marked, tf.int32), 1)
        by_marks = _distance(boards, ends | tf.reshape(marked, tf.shape(boards)))
        shortest = _distance(boards, boards != _WALL)
        return tf.reduce_all(kept, 1) & (by_marks == steps) & (shortest == steps)

    def evaluation_sets(self, lengths: tuple[int, ...] = ()) -> list[EvaluationSet]:
        """A set for each side, by default training's and two larger, and mazes with loops."""
        sides = lengths or (self.max_size, *(self.max_size + more for more in _BEYOND))
        loops = EvaluationSet(LOOPS, LOOPS, self.method, self.max_size)
        return super().evaluation_sets(sides) + ([] if lengths else [loops])

    def text_codec(self, vocab_dir: Path) -> BoardCodec:
        """The codec of boards of the training's side, which needs no file."""
        size = np.array([self.max_size])
        maze = self.draw(np.random.default_rng(0), size, self.max_size, "test")[0]
        return BoardCodec(SYMBOLS, self.max_size, "".join(SYMBOLS[n] for n in maze), once="SG")


def carved(draws: np.random.Generator, count: int, side: int) -> Boards:
    """Draws perfect mazes, bool [count, side, side], true where a cell is free: a depth-first
    search over the cells with odd row and column.
    """
    # Around the board stands one more ring, so that no jump leads out of the array.
    width, rows = side + 2, np.arange(count)
    jumps = 2 * np.array([-width, -1, 1, width])
    open_, closed = np.zeros([count, width, width], bool), np.ones([count, width, width], bool)
    closed[:, 2:-2:2, 2:-2:2] = False
    open_, closed = open_.reshape(count, -1), closed.reshape(count, -1)
    nodes = np.flatnonzero(~closed[0])
    at = draws.choice(nodes, count)
    open_[rows, at] = closed[rows, at] = True
    stack, depth = np.zeros([count, len(nodes)], np.int64), np.zeros(count, np.int64)
    stack[:, 0] = at
    for _ in range(2 * (len(nodes) - 1)):
        beside = at[:, None] + jumps
        chances = 1 - draws.random([count, len(jumps)], np.float32)
        chances *= ~closed[rows[:, None], beside]
        chosen = chances.argmax(1)
        goes_on = chances[rows, chosen] > 0
        there = np.where(goes_on, beside[rows, chosen], at)
        for cell in (there, (at + there) // 2):
            open_[rows, cell] = closed[rows, cell] = True
        depth = np.maximum(depth + np.where(goes_on, 1, -1), 0)
        stack[rows[goes_on], depth[goes_on]] = there[goes_on]
        at = stack[rows, depth]
    return open_.reshape(count, width, width)[:, 1:-1, 1:-1]


def shortest_paths(symbols: Strings) -> Boards:
    """Returns the cells of a shortest path of each maze [count, side, side], ends included; bool of
    that shape.
    """
    distances = np.where(symbols == _GOAL, 0, -1)
    for number in itertools.count(1):
        found = (symbols != _WALL) & (distances < 0) & (_ways(distances >= 0) > 0)
        if not found.any():
            break
        distances[found] = number
    rows, side = np.arange(len(symbols)), symbols.shape[1]
    far, path = distances.reshape(len(rows), -1), np.zeros([len(rows), side**2], bool)
    at = (symbols == _START).reshape(len(rows), -1).argmax(1)
    path[rows, at] = True
    for _ in range(far.max()):
        beside = at[:, None] + np.array([-side, -1, 1, side])
        nearer = far[rows[:, None], beside] == far[rows, at][:, None] - 1
        # At the goal no cell is nearer, or a wall is.
        at = np.where(far[rows, at] > 0, beside[rows, nearer.argmax(1)], at)
        path[rows, at] = True
    return path.reshape(symbols.shape)


def _with_loops(draws: np.random.Generator, boards: Boards) -> Boards:
    """Returns mazes [count, side, side] without some walls between neighbours."""
    count, side, _ = boards.shape
    is_between = np.zeros([side, side], bool)
    is_between[1:-1:2, 2:-1:2] = is_between[2:-1:2, 1:-1:2] = True
    chances = draws.random([count, side**2]) * (is_between & ~boards).reshape(count, -1)
    opened = np.argsort(chances, 1)[:, -(side // 4) :]
    opened_boards = boards.reshape(count, -1).copy()
    np.put_along_axis(opened_boards, opened, True, 1)
    return opened_boards.reshape(boards.shape)


def _ways(cells: Boards) -> Boards:
    """The number of the four cells beside each one that `cells`, bool [count, side, side], has."""
    wide = np.pad(cells, [[0, 0], [1, 1], [1, 1]]).view(np.int8)
    beside: Boards = wide[:, :-2, 1:-1] + wide[:, 2:, 1:-1] + wide[:, 1:-1, :-2]
    return beside + wide[:, 1:-1, 2:]


def _distance(boards: Any, open_: Any) -> Any:
    """Returns the steps from start to goal through `open_` cells, int32 [batch]; 0: there are none.

    Args:
      boards: symbols, int [batch, side, side].
      open_: bool of that shape.
    """
    start, goal = boards == _START, boards == _GOAL

    def goes_on(step: Any, reached: Any, distance: Any) -> Any:
        del reached
        return tf.reduce_any(distance == 0) & (step <= tf.size(boards[0]))

    def spread(step: Any, reached: Any, distance: Any) -> tuple[Any, Any, Any]:
        wide = tf.pad(reached, [[0, 0], [1, 1], [1, 1]])
        beside = wide[:, :-2, 1:-1] | wide[:, 2:, 1:-1] | wide[:, 1:-1, :-2] | wide[:, 1:-1, 2:]
        reached |= beside & open_
        is_there = tf.reduce_any(reached & goal, [1, 2]) & (distance == 0)
        return step + 1, reached, tf.where(is_there, step, distance)

    none = tf.zeros(tf.shape(boards)[:1], tf.int32)
    distance: Any = tf.while_loop(goes_on, spread, [tf.constant(1), start, none])[2]
    return distance


def _odd(argument: str, side: int) -> int:
    if side % 2 == 0:
        raise UserError(
            f"`{argument}`={side}: the side of a maze, walls included, is an odd number of cells."
        )
    return side
