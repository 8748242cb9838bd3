"""Trained runs as SavedModels that take and return text, and a client of TensorFlow Serving."""
