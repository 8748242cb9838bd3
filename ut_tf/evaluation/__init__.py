"""Metrics and their reports."""
