"""Tables of results: filled from run directories and from kept records."""
