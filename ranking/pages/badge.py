"""A badge: how one candidate stands, in one line that fits beside a heading on another site."""

import re
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from django.shortcuts import get_object_or_404

from arena.models import Candidate
from ranking.models import Standing
from ranking.pages.published import Published
from ranking.pages.scripted import counts_scripts

LONGEST_LABEL = 32
PADDING = 7
NARROW, USUAL, BROAD, WIDE = 4.0, 7.0, 9.5, 12.0  # px of a character at 11 px
NARROW_ONES = frozenset(" !'(),-./:;I[]`fijlrt|·")
BROAD_ONES = frozenset("#%+<=>@ABCDGHKMNOQRUVWXYmw±")
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Half:
    """One half of a badge: its text, and where that stands, in px."""

    text: str
    left: float
    width: float

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    @property
    def text_width(self) -> float:
        """Texts are set to this width, whatever fonts there are."""
        return self.width - 2 * PADDING


@dataclass(frozen=True)
class Badge:
    """Both halves, and what a screen reader says in place of them."""

    label: Half
    message: Half
    title: str

    @property
    def width(self) -> float:
        return self.label.width + self.message.width


def badge_of(board: Published, candidate: Candidate) -> Badge:
    """Return the badge of a candidate, by its standing on a board if it has one."""
    found = (one for one in board.standings if one.candidate_id == candidate.pk)
    standing = next(found, None)
    title = f"{candidate} in {board.arena.name}: {_spoken(standing)}"
    message = message_of(standing)
    # Seen where the badge is, without pointing at it.
    if counts_scripts(board.snapshot):
        title, message = f"{title}, of a scripted judge, nothing real", f"scripted: {message}"
    return lay_out(board.arena.name, message, title)


def find_candidate(arena: Any, pk: int) -> Candidate:
    """Return a candidate of the arena; raises Http404."""
    return get_object_or_404(Candidate.objects.revealed().filter(arena=arena), pk=pk)


def lay_out(label: str, message: str, title: str) -> Badge:
    """Place both halves beside each other."""
    label = _shortened(NOT_IN_XML.sub("", label))
    left, right = _width(label), _width(message)
    return Badge(Half(label, 0, left), Half(message, left, right), NOT_IN_XML.sub("", title))


def message_of(standing: Standing | None) -> str:
    """Return what a badge says: the ranks that chance leaves open, the score, how sure it is."""
    if standing is None or standing.score is None:
        return _unranked(standing)
    spread = _spread(standing)
    rank, score = f"#{_ranks(standing, '–')}", f"{standing.score:.0f}"
    sure = ", no interval yet" if spread is None else f" ({'–'.join(spread)})"
    return f"{rank}, {score}{sure}"


def _spoken(standing: Standing | None) -> str:
    if standing is None or standing.score is None:
        return _unranked(standing)
    spread = _spread(standing)
    sure = "no interval yet"
    if spread is not None:
        sure = f"between {' and '.join(spread)} with 95 % confidence"
    return f"rank {_ranks(standing, ' to ')}, score {standing.score:.0f}, {sure}"


def _unranked(standing: Standing | None) -> str:
    is_voted_on = standing is not None and standing.votes > 0
    return "not comparable yet" if is_voted_on else "no votes yet"


def _ranks(standing: Standing, to: str) -> str:
    """One rank where chance leaves only that one open; else from the best to the worst of them."""
    low, high = standing.rank_low, standing.rank_high
    return str(standing.rank) if low is None or low == high else f"{low}{to}{high}"


def _spread(standing: Standing) -> tuple[str, str] | None:
    """Both ends of the interval, which seldom lie equally far from the score."""
    if standing.low is None or standing.high is None:
        return None
    return f"{standing.low:.0f}", f"{standing.high:.0f}"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1].rstrip()}…"


def _width(text: str) -> float:
    return 2 * PADDING + sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if east_asian_width(character) in "WF":
        return WIDE
    if character in NARROW_ONES:
        return NARROW
    return BROAD if character in BROAD_ONES else USUAL
