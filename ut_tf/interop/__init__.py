"""Weights and run directories of other systems."""
