"""Learning to execute."""
