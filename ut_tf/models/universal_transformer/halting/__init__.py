"""Dynamic halting: when a position stops, and what its output is. One file for each form."""
