"""LAMBADA: the last word of a passage."""
