"""The halting forms, one file each: they decide at which step a position stops, and compute its
output.
"""
