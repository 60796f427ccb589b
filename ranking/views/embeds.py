"""Embeds for other sites: the picture of a leaderboard or candidate that chats show beside a link
(SVG, made a PNG), a candidate's badge, and a compact leaderboard in a frame.
"""

import math
import re
import struct
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe
from resvg_py import svg_to_bytes

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
from ranking.templatetags.ranking_tags import NONE

WIDTH, HEIGHT = 1200, 630  # what Open Graph and Twitter cards show uncut
MOST_LINES = 6
MOST_TICKS = 5
FIRST_LINE, LINE_HEIGHT = 278, 46  # px, as are all places and sizes
PLOT = (560.0, 1020.0)
TEXT_WIDTH, NAME_WIDTH = 1080, 370
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
NO_BREAK = "\N{NO-BREAK SPACE}%"
# The same pixels on every machine: no font of the system is used. Latin, Greek and Cyrillic.
FONTS = [
    str(files("font_source_sans_pro") / "files" / f"SourceSansPro-{weight}.ttf")
    for weight in ("Regular", "Bold")
]


@dataclass(frozen=True)
class ScoreAxis:
    """The shared axis of all intervals."""

    low: float
    high: float

    @classmethod
    def around(cls, standings: Sequence[Standing]) -> "ScoreAxis":
        ends = [
            value
            for row in standings
            for value in (row.score, row.low, row.high)
            if value is not None and math.isfinite(value)
        ]
        low, high = min(ends, default=1000.0), max(ends, default=1000.0)
        margin = max(0.04 * (high - low), 5.0)
        return cls(low - margin, high + margin)

    def place(self, score: float) -> float:
        left, right = PLOT
        share = (score - self.low) / (self.high - self.low)
        return round(left + (right - left) * min(max(share, 0.0), 1.0), 1)

    def ticks(self) -> list[tuple[float, int]]:
        """Places and scores of round numbers."""
        least = (self.high - self.low) / MOST_TICKS
        power = 10 ** math.floor(math.log10(least))
        step = max(next(power * n for n in (1, 2, 5, 10) if power * n >= least), 1)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [(self.place(n * step), round(n * step)) for n in range(first, last + 1)]


@dataclass(frozen=True)
class Line:
    """A candidate in the picture: its texts, and the places of its score and interval."""

    y: int
    rank: str
    name: str
    score: str
    x: float | None
    low: float | None
    high: float | None
    is_pale: bool


def draw_board(board: PublishedBoard) -> str:
    """The SVG of the first candidates."""
    ranked = _ranked(board)
    lines = _lines(ranked[:MOST_LINES], None)
    heading = {
        "title": drawable(board.arena.name, board.arena.slug),
        "subtitle": drawable(board.arena.question, ""),
    }
    return _draw(board, heading, ranked[:MOST_LINES], lines)


def draw_candidate(board: PublishedBoard, candidate: Candidate, says: str) -> str:
    """The SVG of a candidate among those ranked next to it; `says`: what is known about it."""
    ranked = _ranked(board)
    ids = [row.candidate_id for row in ranked]
    at = ids.index(candidate.pk) if candidate.pk in ids else 0
    start = max(min(at - MOST_LINES // 2, len(ranked) - MOST_LINES), 0)
    near = ranked[start : start + MOST_LINES] if candidate.pk in ids else []
    arena = drawable(board.arena.name, board.arena.slug)
    heading = {
        "title": drawable(str(candidate), f"Candidate {candidate.pk}"),
        "subtitle": f"{arena}: {says.replace(' %', NO_BREAK)}",
    }
    return _draw(board, heading, near, _lines(near, candidate.pk))


def render_png(svg: str) -> bytes:
    """Render a picture of WIDTH x HEIGHT; only the SVG and the two fonts are read."""
    return svg_to_bytes(
        svg_string=svg,
        skip_system_fonts=True,
        font_files=FONTS,
        font_family="Source Sans Pro",
        sans_serif_family="Source Sans Pro",
    )


def _draw(
    board: PublishedBoard, heading: dict[str, str], standings: Sequence[Standing], lines: list[Line]
) -> str:
    collecting = wording.collecting(board.snapshot, {})
    context: dict[str, Any] = {
        "width": WIDTH,
        "height": HEIGHT,
        "title": shorten(heading["title"], TEXT_WIDTH, 56, bold=True),
        "subtitle": list(wrap(heading["subtitle"], TEXT_WIDTH, 30, lines=2)),
        "snapshot": board.snapshot,
        "raters": board.query.raters,
        "category": shorten(drawable(board.query.category, ""), 300, 26),
        "demo": demo_notice(board.arena, board.snapshot),
        "headline": collecting.headline if collecting else "" if lines else "No scores yet.",
        "lines": lines,
        "ticks": ScoreAxis.around(standings).ticks() if lines else [],
        "bottom": FIRST_LINE - 32 + LINE_HEIGHT * len(lines),
    }
    return render_to_string("ranking/picture.svg", context).strip()


def _ranked(board: PublishedBoard) -> list[Standing]:
    """Without enough votes nobody has a rank yet."""
    if wording.collecting(board.snapshot, {}):
        return []
    return [row for row in board.standings if row.rank is not None]


def _lines(standings: Sequence[Standing], chosen: int | None) -> list[Line]:
    axis = ScoreAxis.around(standings)
    return [
        Line(
            y=FIRST_LINE + LINE_HEIGHT * number,
            rank=_ranks(row, "–") or NONE,
            name=shorten(
                drawable(str(row.candidate), f"Candidate {row.candidate_id}"),
                NAME_WIDTH,
                28,
                bold=True,
            ),
            score="" if row.score is None else f"{row.score:.0f}",
            x=None if row.score is None else axis.place(row.score),
            low=None if row.low is None else axis.place(row.low),
            high=None if row.high is None else axis.place(row.high),
            is_pale=chosen is not None and row.candidate_id != chosen,
        )
        for number, row in enumerate(standings)
    ]


# -- Texts of a limited width, of characters that the font has -------------------------------------


@cache
def _glyphs() -> frozenset[int]:
    """The code points that both fonts draw: their `cmap`, format 12 (OpenType 1.9, cmap)."""
    return frozenset.intersection(
        *(frozenset(_read_cmap(Path(font).read_bytes())) for font in FONTS)
    )


def _read_cmap(font: bytes) -> Iterator[int]:
    def numbers(layout: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(f">{layout}", font, at)

    tables = [struct.unpack_from(">4s4xL", font, 12 + 16 * i) for i in range(numbers("H", 4)[0])]
    start = dict(tables)[b"cmap"]
    for i in range(numbers("H", start + 2)[0]):
        table = start + numbers("L", start + 8 + 8 * i)[0]
        if numbers("H", table)[0] == 12:
            for group in range(numbers("L", table + 12)[0]):
                first, last = numbers("LL", table + 16 + 12 * group)
                yield from range(first, last + 1)


def drawable(text: str, otherwise: str) -> str:
    """Text without what the font lacks, such as Chinese or Arabic, which would be drawn as boxes.
    Letters left out are marked with an ellipsis; `otherwise` if no letter or digit is left."""
    glyphs = _glyphs()

    def draw(character: str) -> str:
        if ord(character) in glyphs:
            return character
        if character.isalnum():
            return "…"
        if character.isspace():
            return " "
        return "-" if unicodedata.category(character) == "Pd" else ""

    kept = "".join(map(draw, unicodedata.normalize("NFC", text)))
    kept = " ".join(re.sub("…[… ]*", "… ", kept).split())
    return kept if any(map(str.isalnum, kept)) else otherwise


def shorten(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """The beginning of a text that fits, with an ellipsis if it was cut."""
    text = " ".join(NOT_IN_XML.sub("", text).split())
    if measure(text, size, bold=bold) <= width:
        return text
    # No character is narrower than a fifth of the size: a long text is cut once before it is tried.
    text = text[: int(5 * width / size)]
    while text and measure(f"{text}…", size, bold=bold) > width:
        text = text[:-1]
    return f"{text.rstrip()}…"


def wrap(text: str, width: float, size: float, *, lines: int) -> Iterator[str]:
    """At most this many lines; the last one is cut."""
    words = re.findall(r"[^ \t\r\n]+", NOT_IN_XML.sub("", text))  # no-break spaces stay
    for _ in range(lines - 1):
        n = len(words)
        while n > 1 and measure(" ".join(words[:n]), size) > width:
            n -= 1
        if words[:n]:
            yield shorten(" ".join(words[:n]), width, size)
        words = words[n:]
    if words:
        yield shorten(" ".join(words), width, size)


def measure(text: str, size: float, *, bold: bool = False) -> float:
    """The approximate width of a text in px, erring on the large side."""
    return size * (1.06 if bold else 1.0) * sum(map(_em_width, text))


def _em_width(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in " !'(),-./:;I[]`fijlrt|·":
        return 0.32
    return 0.68 if character.isupper() or character in "mw%@#&+<=>—…" else 0.53


# -- Badges and frames -----------------------------------------------------------------------------

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
    ranks = _ranks(standing, "–")
    place = f"#{ranks}, " if ranks else ""
    if standing.score is None:
        return f"{place}{_why_no_score(standing)}"
    interval = _interval(standing)
    certainty = ", no interval yet" if interval is None else f" ({'–'.join(interval)})"
    return f"{place}{standing.score:.0f}{certainty}"


def describe_standing(standing: Standing | None) -> str:
    """For screen readers and search engines: the possible ranks, the score, and its interval."""
    collecting = wording.collecting(standing.snapshot, {}) if standing else None
    if collecting:
        return collecting.headline.rstrip(".").lower()
    if standing is None or standing.rank is None:
        return _unranked(standing)
    ranks = _ranks(standing, " to ")
    place = f"rank {ranks}, " if ranks else ""
    if standing.score is None:
        return f"{place}{_why_no_score(standing)}"
    interval = _interval(standing)
    certainty = "no interval yet"
    if interval is not None:
        certainty = f"between {' and '.join(interval)} with 95 % confidence"
    return f"{place}score {standing.score:.0f}, {certainty}"


def _unranked(standing: Standing | None) -> str:
    has_votes = standing is not None and standing.votes > 0
    return "not comparable yet" if has_votes else "no votes yet"


def _why_no_score(standing: Standing) -> str:
    """Why there is no score, in a few words."""
    if standing.losses + standing.ties == 0:
        return "never lost"
    return "never won" if standing.wins + standing.ties == 0 else "no score"


def _ranks(standing: Standing, to: str) -> str:
    """A single rank if only one is possible, otherwise from the best to the worst; '' without an
    interval: any rank is possible then."""
    low, high = standing.sure_rank_low, standing.sure_rank_high
    if low is None:
        return ""
    return str(low) if low == high else f"{low}{to}{high}"


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
        "lead": wording.lead(rows, Findings.of(board.snapshot), these_raters),
        "collecting": collecting,
        "standings": standings,
        "more": len(board.standings) - len(standings),
        "board_url": board.address(),
    }
