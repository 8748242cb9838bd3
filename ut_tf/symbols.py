"""Symbol ids that every problem shares: 0 pads, 1 ends a sequence, the first symbol is 2.

A decoder's start is a vector and has no id (``layers/target_start.py``).
"""

PADDING_ID = 0
END_ID = 1
FIRST_SYMBOL_ID = 2
