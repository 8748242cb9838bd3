"""Simulated bAbI stories."""
