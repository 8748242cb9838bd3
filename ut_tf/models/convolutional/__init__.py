"""Convolutional sequence models: ConvS2S and ByteNet."""
