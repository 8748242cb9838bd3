"""What happens every so many updates, one small object each."""
