"""Recipes, one file per task."""
