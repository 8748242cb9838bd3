"""The training loop, schedules, losses, checkpoints and averaging."""
