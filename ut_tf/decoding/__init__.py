"""Greedy decoding with caches."""
