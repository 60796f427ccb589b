"""Names that everybody reads: of teams, arenas and candidates."""

import hashlib
from unicodedata import category, normalize

JOINERS = ("\u200c", "\u200d")  # Persian, Indic scripts and some emoji are written with them


def hidden_character(name: str) -> str:
    """Say which character of `name` is not seen, or turns the line round; '' where none is."""
    padded = f" {name} "
    for before, letter, after in zip(padded, padded[1:], padded[2:], strict=False):
        joins = letter in JOINERS and not (before.isascii() or after.isascii())
        if category(letter) in ("Cf", "Cc") and not joins:
            return f"contains a character that is not seen (U+{ord(letter):04X})"
    return ""


def without_joiners(name: str) -> str:
    return "".join(letter for letter in name if letter not in JOINERS)


def key_of(name: str) -> str:
    """Return one key for all names that read alike, of a length that every index takes.

    Wide letters, capitals and accents written apart are what they stand for.
    """
    alike = normalize("NFKC", normalize("NFKC", without_joiners(name)).casefold())
    return hashlib.sha256(alike.encode("utf-8", "surrogatepass")).hexdigest()
