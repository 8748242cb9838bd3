"""LSTMs, with attention or without."""
