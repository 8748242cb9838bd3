"""Storage on disk: files that are whole or absent, locks, checkpoints."""
