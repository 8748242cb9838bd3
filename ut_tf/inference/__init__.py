"""Text in, text out, with a trained run."""
