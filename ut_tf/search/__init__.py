"""Search for outputs: greedy, beam and sampling, one position at a time."""
