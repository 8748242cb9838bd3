"""Constituency parsing as sequence to sequence."""
