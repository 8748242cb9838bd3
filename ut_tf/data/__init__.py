"""Data: the contract of a problem, vocabularies, download and preparation, batching by length."""
