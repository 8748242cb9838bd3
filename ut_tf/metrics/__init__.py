"""What is measured: losses, counts per example, their sums, intervals, BLEU."""
