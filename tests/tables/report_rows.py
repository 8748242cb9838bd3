"""Rows of a Markdown report."""

from __future__ import annotations


def at_400(char_acc, seq_acc):
    return {
        "length_40/char_acc": 1.0,
        "length_40/seq_acc": 1.0,
        "length_400/char_acc": char_acc,
        "length_400/seq_acc": seq_acc,
    }


def rows(text, table="4"):
    """Returns the lines of a Markdown table as lists of cells, without the head."""
    section = text.split(f"## Table {table}.")[1].split("\n## ")[0]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return lines[2:]


def ours(text, table="4"):
    return [row for row in rows(text, table) if "paper" not in row]
