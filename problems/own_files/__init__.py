"""The user's own files: texts with classes, and plain text for a language model."""
