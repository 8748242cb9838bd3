"""The examples that ut-show prints: what is typed, lines, boards, notes."""
