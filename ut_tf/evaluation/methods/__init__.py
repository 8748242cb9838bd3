"""The ways to judge a set of examples, one class each."""
