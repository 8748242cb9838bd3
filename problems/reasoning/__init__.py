"""Reasoning on generated puzzles, with an answer at every position."""
