"""Names that everybody reads: of teams, arenas and candidates."""

import unicodedata

JOINERS = ("\u200c", "\u200d")  # Persian, Indic scripts and some emoji are written with them


def hidden_character(name: str) -> str:
    """Say which character of `name` is not seen, or turns the line round; '' where none is."""
    padded = f" {name} "
    for before, letter, after in zip(padded, padded[1:], padded[2:], strict=False):
        joins = letter in JOINERS and not (before.isascii() or after.isascii())
        if unicodedata.category(letter) in ("Cf", "Cc") and not joins:
            return f"contains a character that is not seen (U+{ord(letter):04X})"
    return ""


def without_joiners(name: str) -> str:
    return "".join(letter for letter in name if letter not in JOINERS)
