"""Parallel corpora: pairs of lines, encoded once and kept in shards."""
