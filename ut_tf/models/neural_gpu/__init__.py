"""Neural GPUs."""
