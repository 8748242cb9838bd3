"""Programs and digits of learning to execute."""

from __future__ import annotations

from tests.spellings.table import Table

_PROGRAM = r"j=85\nprint((j+92))"

PROGRAMS = Table(
    "programs",
    "lte_zaremba_program",
    reads={
        "": ["", " ", "\t"],
        _PROGRAM: [
            *(_PROGRAM, f" {_PROGRAM} ", f"{_PROGRAM}\r", f"\t{_PROGRAM}", "j=85\nprint((j+92))"),
        ],
        r"j=85\nprint(j)": [r"j=85\nprint(j)", r"  j=85\nprint(j)"],
        "print(12 )": ["print(12 )", " print(12 )"],
        "print(12)": ["print(12)"],
    },
    refuses={
        "is no symbol of this problem: expected characters of '()*+-0123456789:<=>": [
            *(_PROGRAM.replace("j", "J"), "print(１２)", "print(1,2)", "print(1/2)", "print[12]"),
            *(
                "print(1.5)",
                "print('a')",
                "x_1=2",
                "print(٣)",
                "é=1",
                "print(1)\u00a0",
                "print(−1)",
            ),
            *(
                r"j=1\tprint(j)",
                r"j=1\rprint(j)",
                "j=1\\",
                "print(1)#",
                "print(1\x00)",
                "j=1;print(j)",
            ),
            *("print(1\t)", "print(1）", "“12”", "print(1\u200b)"),
        ]
    },
    reads_targets={"177": ["177", " 177", "177\r"], "-9": ["-9"], "": ["", " "]},
    refuses_targets={"is no symbol of this problem": ["１77", "1.5", "−9", "1,000"]},
)
