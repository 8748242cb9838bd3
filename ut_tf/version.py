"""The version of the package, readable without importing anything else."""

__version__ = "1.0.0"
