"""Transformers with learned memory vectors in front of the sequence."""
