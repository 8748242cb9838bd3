"""Keras layers: attention, transition, coordinates, recurrence, halting."""
