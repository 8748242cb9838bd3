"""Figures of evaluations, exit sweeps and trainings; they need the extra ``[figures]``."""
