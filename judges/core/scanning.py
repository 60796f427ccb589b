"""Does an answer try to steer its judge? A hit never decides anything: it flags a pair for people.

Every kind of attack is a few patterns, matched against the folded text: NFKC, lower case, without
accents and invisible characters, so that neither full-width letters nor a zero-width space within
a word hide anything. Characters that people cannot see are searched in the text as it stands. All
steps that a pattern can take from one place are bounded, so the time grows with the length alone.

What it finds, what it overlooks and how often it is wrong stands in docs/injection.md.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from judges.core.attacks import FOLDED, FOLDED_NOT_ASCII, UNSEEN

MOST_HITS = 5
EXCERPT_BEFORE = 20
# Letters by their category, and yet they show nothing.
FILLERS = "\u115f\u1160"
EXCERPT = 120


@dataclass(frozen=True)
class Hit:
    """One suspicious place. `start` is a position in the text, and `excerpt` what stands there,
    with the characters that people cannot see written out as <U+200B>."""

    kind: str
    excerpt: str
    start: int


def scan(text: str) -> tuple[Hit, ...]:
    """Return what looks like an attempt to steer a judge, in reading order.

    At most `MOST_HITS` of each kind: more would tell nobody anything.
    """
    if text.isascii():
        found = list(_matches(FOLDED, text.lower()))
    else:
        folded, places = _folded(text)
        of_folded = _matches(FOLDED, folded), _matches(FOLDED_NOT_ASCII, folded)
        found = [(kind, places[at]) for matches in of_folded for kind, at in matches]
        found += _matches(UNSEEN, text)
    return tuple(
        Hit(kind, _excerpt(text, start), start)
        for start, kind in sorted({(start, kind) for kind, start in found})
    )


def _matches(patterns: Mapping[str, re.Pattern[str]], text: str) -> Iterator[tuple[str, int]]:
    for kind, pattern in patterns.items():
        for match in islice(pattern.finditer(text), MOST_HITS):
            yield kind, match.start()


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """Return the folded text, and for each of its characters the place where it came from."""
    pieces = [(_folded_character(character), place) for place, character in enumerate(text)]
    places = [place for piece, place in pieces for _ in piece]
    return "".join(piece for piece, _ in pieces), places


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).lower()
    seen = [c for c in plain if unicodedata.category(c) not in ("Cf", "Mn") and c not in FILLERS]
    return unicodedata.normalize("NFC", "".join(seen))


def _excerpt(text: str, start: int) -> str:
    first = max(0, start - EXCERPT_BEFORE)
    return "".join(map(_visible, text[first : first + EXCERPT]))


def _visible(character: str) -> str:
    hidden = unicodedata.category(character) in ("Cf", "Cc", "Co", "Cn", "Cs")
    return f"<U+{ord(character):04X}>" if hidden and character not in "\n\t" else character
