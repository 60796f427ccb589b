"""Embeds for other sites: pictures, a candidate's badge, and a compact leaderboard in a frame."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from arena.models import Candidate
from ranking import wording
from ranking.board_data import (
    LARGEST_ID,
    BoardQuery,
    BoardStanding,
    Findings,
    demo_notice,
)
from ranking.comparison import PublishedBoard, read_published
from ranking.http_cache import HTML, policy, send_to_anybody
from ranking.models import Standing
from ranking.pictures import NOT_IN_XML, draw_board, draw_candidate, render_png

SVG, PNG = "image/svg+xml", "image/png"
FIVE_MINUTES = "public, max-age=300"
MOST_STANDINGS = 10
FRAME_POLICY = {
    "default-src": ["'none'"],
    "style-src": ["'self'"],
    "img-src": ["'self'"],  # its icon, if it is opened on its own
    "base-uri": ["'none'"],
    "form-action": ["'none'"],
    "frame-ancestors": ["*"],
}
LONGEST_LABEL = 32
PADDING = 7
# Widths of characters in px, at a font size of 11 px.
NARROW, USUAL, BROAD, FULL = 4.0, 7.0, 9.5, 12.0
NARROW_CHARACTERS = frozenset(" !'(),-./:;I[]`fijlrt|·")
BROAD_CHARACTERS = frozenset("#%+<=>@ABCDGHKMNOQRUVWXYmw±")

# -- Badges ----------------------------------------------------------------------------------------


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


ALONE = {"default-src": ["'none'"], "frame-ancestors": ["'none'"], "sandbox": True}


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

    return _send_picture(request, slug, query.key(f"badge-{pk}"), SVG, make)


def _send_picture(
    request: HttpRequest,
    slug: str,
    key: str,
    content_type: str,
    make: Callable[[Any], str | bytes],
) -> HttpResponseBase:
    response = send_to_anybody(request, slug, key, content_type, make)
    response.headers["Cache-Control"] = FIVE_MINUTES
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


def make_badge(board: PublishedBoard, candidate: Candidate) -> Badge:
    rows = (row for row in board.standings if row.candidate_id == candidate.pk)
    standing, collecting = next(rows, None), wording.collecting(board.snapshot, {})
    spoken, message = describe_standing(standing), badge_message(standing)
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
    left, right = _width(label), _width(message)
    return Badge(Half(label, 0, left), Half(message, left, right), NOT_IN_XML.sub("", title))


def badge_message(standing: Standing | None) -> str:
    """The possible ranks, the score, and its interval: "#1–2, 1043 (1025–1061)"."""
    if standing is None or standing.rank is None:
        return _unranked(standing)
    if standing.score is None:
        return f"#{_ranks(standing, '–')}, {_why_no_score(standing)}"
    interval = _interval(standing)
    certainty = ", no interval yet" if interval is None else f" ({'–'.join(interval)})"
    return f"#{_ranks(standing, '–')}, {standing.score:.0f}{certainty}"


def describe_standing(standing: Standing | None) -> str:
    """For screen readers and search engines: the possible ranks, the score, and its interval."""
    collecting = wording.collecting(standing.snapshot, {}) if standing else None
    if collecting:
        return collecting.headline.rstrip(".").lower()
    if standing is None or standing.rank is None:
        return _unranked(standing)
    if standing.score is None:
        return f"rank {_ranks(standing, ' to ')}, {_why_no_score(standing)}"
    interval = _interval(standing)
    certainty = "no interval yet"
    if interval is not None:
        certainty = f"between {' and '.join(interval)} with 95 % confidence"
    return f"rank {_ranks(standing, ' to ')}, score {standing.score:.0f}, {certainty}"


def _unranked(standing: Standing | None) -> str:
    has_votes = standing is not None and standing.votes > 0
    return "not comparable yet" if has_votes else "no votes yet"


def _why_no_score(standing: Standing) -> str:
    """Why there is no score, in a few words."""
    if standing.losses + standing.ties == 0:
        return "never lost"
    return "never won" if standing.wins + standing.ties == 0 else "no score"


def _ranks(standing: Standing, to: str) -> str:
    """A single rank if only one is possible; otherwise from the best to the worst."""
    low, high = standing.sure_rank_low, standing.sure_rank_high
    return str(standing.rank) if low is None or low == high else f"{low}{to}{high}"


def _interval(standing: Standing) -> tuple[str, str] | None:
    """Both ends of the interval, which is rarely symmetric around the score."""
    if standing.low is None or standing.high is None:
        return None
    return f"{standing.low:.0f}", f"{standing.high:.0f}"


def _width(text: str) -> float:
    return 2 * PADDING + sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if east_asian_width(character) in "WF":
        return FULL
    if character in NARROW_CHARACTERS:
        return NARROW
    return BROAD if character in BROAD_CHARACTERS else USUAL


# -- Pictures beside links -------------------------------------------------------------------------


@require_safe
@policy(ALONE)
def board_picture(request: HttpRequest, slug: str) -> HttpResponseBase:
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> bytes:
        return render_png(draw_board(read_published(arena, query)))

    return _send_picture(request, slug, query.key("picture"), PNG, make)


@require_safe
@policy(ALONE)
def candidate_picture(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    if pk > LARGEST_ID:
        raise Http404("There is no such candidate.")
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> bytes:
        candidate = get_object_or_404(Candidate.objects.revealed().filter(arena=arena), pk=pk)
        board = read_published(arena, query)
        rows = (row for row in board.standings if row.candidate_id == pk)
        says = describe_standing(next(rows, None))
        return render_png(draw_candidate(board, candidate, says))

    return _send_picture(request, slug, query.key(f"picture-{pk}"), PNG, make)


# -- The compact leaderboard -----------------------------------------------------------------------


@require_safe
@xframe_options_exempt
@policy(FRAME_POLICY)
def embed_board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The top of a board. It has no scripts and no forms, so any site may frame it."""
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        context = embed_context(read_published(arena, query))
        return render_to_string("ranking/embed.html", context)

    return send_to_anybody(request, slug, query.key("embed"), HTML, make)


def embed_context(board: PublishedBoard) -> dict[str, Any]:
    """The context of `ranking/embed.html`."""
    collecting = wording.collecting(board.snapshot, {})
    # Without enough votes nobody has a rank yet.
    placed = [] if collecting else board.standings
    ranked = [standing for standing in placed if standing.rank is not None]
    rows = [BoardStanding(standing, str(standing.candidate)) for standing in ranked]
    standings = ranked[:MOST_STANDINGS]
    these_raters = board.snapshot.settings.get("these_raters", 0) if board.snapshot else 0
    return {
        "arena": board.arena,
        "snapshot": board.snapshot,
        "raters": board.query.raters,
        "category": board.query.category,
        "demo": demo_notice(board.arena, board.snapshot),
        "lead": wording.lead(rows, Findings.of(board.snapshot).leader, these_raters),
        "collecting": collecting,
        "standings": standings,
        "more": len(board.standings) - len(standings),
        "board_url": board.address(),
    }
