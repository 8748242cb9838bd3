"""The Universal Transformer: a block repeated in depth, its cells and its halting forms."""
