"""A candidate's badge: rank, score and interval as a small SVG."""

from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.models import Candidate
from ranking import wording
from ranking.board_data import LARGEST_ID, BoardQuery
from ranking.comparison import PublishedBoard, read_published
from ranking.http_cache import policy
from ranking.scripted_raters import demo_notice
from ranking.views.embeds import ALONE, NOT_IN_XML, send_picture

SVG = "image/svg+xml"
LONGEST_LABEL = 32
PADDING = 7
# Widths of characters in px, at a font size of 11 px.
NARROW, USUAL, BROAD, FULL = 4.0, 7.0, 9.5, 12.0
NARROW_CHARACTERS = frozenset(" !'(),-./:;I[]`fijlrt|·")
BROAD_CHARACTERS = frozenset("#%+<=>@ABCDGHKMNOQRUVWXYmw±")


@dataclass(frozen=True)
class Half:
    """One half of a badge: its text, and its place in px."""

    text: str
    left: float
    width: float

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    @property
    def text_width(self) -> float:
        """The text is stretched to this width, regardless of the font."""
        return self.width - 2 * PADDING


@dataclass(frozen=True)
class Badge:
    """Both halves, and what a screen reader says instead."""

    label: Half
    message: Half
    title: str

    @property
    def width(self) -> float:
        return self.label.width + self.message.width


@require_safe
@policy(ALONE)
def badge(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """Rank, score and interval as a picture. A private arena has no badges, even for its team."""
    if pk > LARGEST_ID:
        raise Http404("There is no such candidate.")
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        candidate = get_object_or_404(Candidate.objects.revealed().filter(arena=arena), pk=pk)
        context = {"badge": make_badge(read_published(arena, query), candidate)}
        return render_to_string("ranking/badge.svg", context).strip()

    return send_picture(request, slug, query.key(f"badge-{pk}"), SVG, make)


def make_badge(board: PublishedBoard, candidate: Candidate) -> Badge:
    rows = (row for row in board.standings if row.candidate_id == candidate.pk)
    standing, collecting = next(rows, None), wording.collecting(board.snapshot)
    spoken, message = wording.describe_standing(standing), wording.badge_message(standing)
    if collecting:
        spoken = message = collecting.headline.rstrip(".").lower()
    title = f"{candidate} in {board.arena.name}: {spoken}"
    # In the message too, to be visible without hovering over the badge.
    if demo := demo_notice(board.arena, board.snapshot):
        title, message = f"{title}. {demo}", f"demo: {message}"
    return lay_out(board.arena.name, message, title)


def lay_out(label: str, message: str, title: str) -> Badge:
    """Place both halves side by side."""
    label = NOT_IN_XML.sub("", label)
    if len(label) > LONGEST_LABEL:
        label = f"{label[: LONGEST_LABEL - 1].rstrip()}…"
    left, right = _half_width(label), _half_width(message)
    return Badge(Half(label, 0, left), Half(message, left, right), NOT_IN_XML.sub("", title))


def _half_width(text: str) -> float:
    return 2 * PADDING + sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if east_asian_width(character) in "WF":
        return FULL
    if character in NARROW_CHARACTERS:
        return NARROW
    return BROAD if character in BROAD_CHARACTERS else USUAL
