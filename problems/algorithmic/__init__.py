"""Copying, reversing and adding digit strings."""
