"""Many runs of one command: problems, sets and seeds."""
