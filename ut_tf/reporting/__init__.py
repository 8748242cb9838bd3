"""Tables of results, filled from run directories."""
