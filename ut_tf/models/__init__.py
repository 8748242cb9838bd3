"""Whole networks put together from layers."""
