"""Digits to be copied, sums, bits, boards, and the characters and numbers of a user's puzzles."""

from __future__ import annotations

import json
from pathlib import Path

from tests.spellings.table import Table
from ut_tf.data.text.vocabulary import write_symbols

DIGITS = Table(
    "digits",
    "algorithmic_reverse_decimal40",
    reads={
        "": ["", " ", " \u000b", "\t"],
        "12": ["12", " 12", "12 ", "1 2", "1\t2", "\t1  2 ", "12\r", "1\u000c2", "1\u000b2"],
        "0012": ["0012", "00 12", "0 0 1 2"],
        "7": ["7", " 7 "],
    },
    refuses={
        "is not what this problem reads: expected digits, of the digits 0 to 9": [
            *("1x2", "12.", "1,2", "-12", "+12", "1.5", "1e3", "0x1f", "a", "12½", "1_2"),
            # Full-width, Arabic, Devanagari and mathematical digits, superscripts, roman numerals.
            *("１２", "١٢", "१२", "𝟏𝟐", "1²", "Ⅻ", "①"),
            # Blanks that are not those of ASCII, a mark, a zero-width blank, an accent.
            *("1\u00a02", "1\u30002", "1\u20282", "12\ufeff", "1\u200b2", "1\u03012", "1\x002"),
            *("12<end>", r"\1", "%s", "12 # note", "٫"),
        ]
    },
    reads_targets={"21": ["21", " 21", "2 1", "21\r"], "": ["", "  "], "021": ["021"]},
    refuses_targets={"expected digits": ["2x1", "２１", "2\u00a01", "-21", "<pad>"]},
)

SUMS = Table(
    "sums",
    "algorithmic_addition_decimal40",
    reads={
        "": ["", "  "],
        "12+3": [
            *("12+3", " 12+3", "12 + 3", "1 2+3 ", "12+3\r", "\t12 +\t3"),
            *("012+3", "12+03", "00012+0003", "0 12 + 0 3"),
        ],
        "3+12": ["3+12", "3 + 12"],
        "0+0": ["0+0", "00+0", "0+000"],
    },
    refuses={
        "expected two numbers with + between them, of the digits 0 to 9": [
            *(
                "12",
                "12+",
                "+3",
                "+",
                "1+2+3",
                "12++3",
                "12-3",
                "-1+2",
                "1.5+2",
                "12+3=",
                "12+3=15",
            ),
            *(
                "１２+3",
                "12＋3",
                "١٢+3",
                "12+x",
                "12\u00a0+3",
                "12⁺3",
                "1,000+2",
                "1e3+2",
                "12 plus 3",
            ),
        ]
    },
    reads_targets={"15": ["15", "1 5", " 15 "], "015": ["015"]},
    refuses_targets={"expected digits": ["１５", "1+5", "fifteen", "15.0"]},
)

BITS = Table(
    "bits",
    "prefix_sums_32",
    targets="aligned",
    reads={
        "": ["", " "],
        "0110": ["0110", " 0110", "01 10", "0 1 1 0", "0110\r", "\t01\t10"],
        "0": ["0", " 0"],
        "00110": ["00110", "00 110"],
    },
    refuses={
        "expected characters of '01'": [
            *("012", "2", "0x1", "-01", "0.1", "0,1", "O1", "l0", "true", "0b01", "01.", "[0,1]"),
            *("０１", "٠١", "01\u00a010", "01\u200b", "0¹", "𝟎𝟏"),
        ]
    },
    reads_targets={"0100": ["0100", "01 00", " 0100"], "010": ["010", "0 10"]},
    refuses_targets={"expected characters of '01'": ["0102", "０１００", "01x0"]},
)

_ROWS = "13.. .23. .4.. 3..2"
_CELLS = _ROWS.replace(" ", "")
_SOLVED = "1324 4231 2413 3142"

BOARDS = Table(
    "boards",
    "sudoku_4x4",
    targets="aligned",
    reads={
        "": ["", "    "],
        _ROWS: [
            *(_ROWS, _CELLS, _CELLS.replace(".", "0"), _ROWS.replace(".", "0")),
            *("130. .23. .4.0 3..2", " ".join(_CELLS), f" {_ROWS} ", _ROWS.replace(" ", "  ")),
            *(_ROWS.replace(" ", "\t"), f"{_ROWS}\r"),
        ],
        ".... .... .... ....": [".... .... .... ....", "0" * 16],
        _SOLVED: [_SOLVED, _SOLVED.replace(" ", "")],
    },
    refuses={
        "is not what this problem reads: expected a line of 16 characters of '.12340'": [
            *(_CELLS[:15], f"{_CELLS}.", "1", _ROWS.replace("4", "5"), _ROWS.replace("4", "x")),
            *(_ROWS.replace(".", "_"), _ROWS.replace(".", "*"), _ROWS.replace(".", "?")),
            *(_ROWS.replace(".", "。"), _ROWS.replace("1", "１"), _ROWS.replace("1", "١")),
            *(_ROWS.replace(" ", "\u00a0"), _ROWS.replace(" ", "|"), _ROWS.replace(" ", ",")),
            *(_ROWS.replace(".", "-"), _ROWS.replace(".", "　"), "Ⅰ" + _CELLS[1:]),
        ],
        "has the digit 1 twice in a row, at row 1 column 1 and row 1 column 4": ["1..1" + "." * 12],
        "has the digit 2 twice in a column, at row 1 column 2 and row 4 column 2": [
            ".2.. .... .... .2.."
        ],
        "has the digit 3 twice in a box": ["3....3.........."],
    },
    reads_targets={_SOLVED: [_SOLVED, _SOLVED.replace(" ", ""), " ".join(_SOLVED)]},
    refuses_targets={
        "expected a line of 16 characters of '1234'": [
            _ROWS,
            _SOLVED[:-1],
            _SOLVED.replace("1", "１"),
        ]
    },
)

# Facts and a question; answers are heads.
FACTS = Table(
    "facts",
    "facts_5",
    targets="aligned",
    reads={
        "": ["", " "],
        "apb:ap": [
            *("apb:ap", " apb:ap ", "apb :ap", "a p b : a p", "apb\t:ap", "apb:ap\r"),
            "apb\u000b:a\u000cp",
        ],
        ":q": [":q", " : q"],
    },
    refuses={
        "is not what this problem reads: expected characters of 'abcdefpqrs:'": [
            *("apg", "APB", "a,b", "a.b", "(ap)", "1", "a-b", "ä", "a\u0301", "ａpb", "α", "a：p"),
            *("a\u00a0p", "a\u200bp", "a\x00p", "<end>", "%s", "漢"),
        ],
        "asks for no answer: expected ':', a head, and a relation": [
            *("apb", "apb:", "apb:a", "ap b"),
        ],
    },
    # An answer to each relation behind the question's beginning.
    reads_targets={"b": ["b", " b ", "b\r"], "e": ["e", "\te"]},
    refuses_targets={"expected characters of 'abcdef'": ["ap", ":", "A", "ａ", "a\u00a0b"]},
)


def _characters(folder: Path) -> None:
    write_symbols(folder / "characters.txt", "+.0123=axé")


def _with_blank(folder: Path) -> None:
    write_symbols(folder / "characters.txt", " #ox")


_NEW = "which training did not have"

PAIRS = Table(
    "pairs",
    "pairs_files",
    arguments={"source_files": ("pairs.tsv",)},
    vocabulary=_characters,
    reads={
        "": ["", "  "],
        "12+3": ["12+3", " 12+3", "1 2 + 3", "12+3\r", "12\t+3", "12\u000b+3"],
        "axé": ["axé", " a x é "],
    },
    refuses={
        "has the character '4', which training did not have": ["14", "4", "1 4", "45"],
        _NEW: [
            *("1-2", "A", "1,2", "１２", "١", "1²", "ae\u0301", "x\u00a01", "1\u200b2", "1\x002"),
            *("<end>", "%s"),
        ],
    },
    reads_targets={"13": ["13", " 1 3"], "ax": ["ax"]},
    refuses_targets={_NEW: ["4", "１", "1\u00a02"]},
)

GRIDS = Table(
    "grids",
    "aligned_files",
    arguments={"source_files": ("grids.csv",), "board": "2x3"},
    targets="aligned",
    vocabulary=_characters,
    reads={
        "": ["", "  "],
        "1.3 .2.": ["1.3 .2.", "1.3.2.", " 1 . 3 . 2 . ", "1.3\t.2.", "1.3.2.\r"],
        "axé 000": ["axé000", "axé 000"],
    },
    refuses={
        "expected 6, the cells of a board of 2x3": ["1.3", "1.3.2.1", "1", "1.3 .2. 1"],
        _NEW: [
            *("1.4.2.", "1_3_2_", "1.3|.2.", "1,3,2,", "[1.3.2.]", "１.3.2.", "1。3.2.", "1.3.2b"),
            *("1.3\u00a0.2.", "1.3.2²"),
        ],
    },
    reads_targets={"123 321": ["123321", "123 321"]},
    refuses_targets={"expected 6": ["12"], _NEW: ["123324"]},
)

# A blank of the vocabulary is a cell like others.
BLANKS = Table(
    "blanks",
    "aligned_files",
    arguments={"source_files": ("blanks.csv",), "board": "2x2"},
    targets="aligned",
    vocabulary=_with_blank,
    reads={
        "": [""],
        "#o x": ["#o x"],
        "o# x": ["o# x"],
        "xo#x": ["xo#x"],
        " #ox": [" #ox"],
        "ox# ": ["ox# "],
    },
    refuses={
        "expected 4, the cells of a board of 2x2": ["#ox", "#o  x", " #o x", "#o x ", "x"],
        _NEW: ["#o\tx", "#o.x", "#o_x", "#o\u00a0x", "#o\u3000x", "#oXx", "０#ox", "#o\x00x"],
    },
    reads_targets={"xx x": ["xx x"]},
    refuses_targets={"expected 4": ["xx"], _NEW: ["xx.x"]},
)


def _description(folder: Path) -> None:
    ids = {"pad_id": 0, "ignore_label_id": 0, "vocab_size": 11, "num_puzzle_identifiers": 1}
    (folder / "dataset.json").write_text(json.dumps({**ids, "seq_len": 4}), encoding="utf-8")


IDS = Table(
    "ids",
    "puzzle_folder",
    arguments={"folder": "{folder}/puzzles", "board": "2x2"},
    targets="aligned",
    vocabulary=_description,
    reads={
        "": ["", " "],
        "1 3 10 0": ["1 3 10 0", " 1 3 10 0 ", "1  3\t10 0", "1 3 10 0\r", "1 3\u000b10\u000c0"],
        "2 2 2 2": ["2 2 2 2"],
    },
    refuses={
        "is not what this problem reads: expected 4 numbers from 0 to 10": [
            *("1", "1 3 10", "1 3 10 0 0", "13100", "1 3 11 0", "1 3 -1 0", "1 3 +1 0", "1,3,10,0"),
            *("01 3 10 0", "1 3 1e1 0", "1 3 1.0 0", "1 3 x 0", "1 3 0x1 0", "１ 3 10 0"),
            *("1 3 ١ 0", "1\u00a03 10 0", "[1, 3, 10, 0]", "1 3 10 0²"),
        ]
    },
    reads_targets={"2 3 4 5": ["2 3 4 5", " 2 3  4 5"]},
    refuses_targets={"expected 4 numbers": ["2 3 4", "2 3 4 11", "２ 3 4 5"]},
)

_MAZE = "##### #S..# ###.# #G..# #####"
_MAZE_CELLS = _MAZE.replace(" ", "")

MAZES = Table(
    "mazes",
    "maze_9",
    arguments={"max_size": 5, "disjoint_splits": False},
    targets="aligned",
    reads={
        "": ["", "    "],
        _MAZE: [
            *(_MAZE, _MAZE_CELLS, " ".join(_MAZE_CELLS), f" {_MAZE} ", _MAZE.replace(" ", "\t")),
            *(_MAZE.replace(" ", "  "), f"{_MAZE}\r"),
        ],
    },
    refuses={
        "expected a line of 25 characters of '#.SGo'": [
            *(_MAZE_CELLS[:24], f"{_MAZE_CELLS}#", "#", "SG", _MAZE.replace(".", "0")),
            *(_MAZE.replace("S", "s"), _MAZE.replace("#", "x"), _MAZE.replace("#", "＃")),
        ],
        "needs one S and one G": [
            *(_MAZE.replace("S", "."), _MAZE.replace("G", "."), _MAZE.replace("G", "S")),
            *(_MAZE.replace("..", "S."), "#" * 25),
        ],
    },
    reads_targets={_MAZE: [_MAZE, _MAZE_CELLS]},
    refuses_targets={"expected a line of 25 characters of '#.SGo'": [_MAZE[:-1], "#"]},
)
