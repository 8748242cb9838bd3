"""Text as ids and back: vocabularies, subwords, codecs."""
