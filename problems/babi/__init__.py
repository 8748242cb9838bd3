"""bAbI: questions about stories."""
