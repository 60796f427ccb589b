"""The picture of a leaderboard or candidate that chats show beside a link: SVG, made a PNG."""

import math
import re
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe
from resvg_py import svg_to_bytes

from arena.models import Arena, Candidate
from ranking import wording
from ranking.board_data import LARGEST_ID, BoardQuery, find_arena
from ranking.comparison import PublishedBoard, read_published
from ranking.http_cache import pack, policy, store
from ranking.models import Standing
from ranking.scripted_raters import demo_notice
from ranking.templatetags.ranking_tags import NONE
from ranking.views.embeds import ALONE, NOT_IN_XML, send_picture

PNG = "image/png"
WIDTH, HEIGHT = 1200, 630  # what Open Graph and Twitter cards show uncut
MOST_LINES = 6
MOST_TICKS = 5
FIRST_LINE, LINE_HEIGHT = 278, 46  # px, as are all places and sizes
PLOT = (560.0, 1020.0)
TEXT_WIDTH, NAME_WIDTH = 1080, 370
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
    def covering(cls, standings: Sequence[Standing]) -> "ScoreAxis":
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
    ranked = _ranked_standings(board)
    lines = _picture_lines(ranked[:MOST_LINES], None)
    heading = {
        "title": drawable(board.arena.name, board.arena.slug),
        "subtitle": drawable(board.arena.question, ""),
    }
    return _draw_picture(board, heading, ranked[:MOST_LINES], lines, len(ranked) - len(lines))


def draw_candidate(board: PublishedBoard, candidate: Candidate, says: str) -> str:
    """The SVG of a candidate among those ranked next to it; `says`: what is known about it."""
    ranked = _ranked_standings(board)
    ids = [row.candidate_id for row in ranked]
    at = ids.index(candidate.pk) if candidate.pk in ids else 0
    start = max(min(at - MOST_LINES // 2, len(ranked) - MOST_LINES), 0)
    near = ranked[start : start + MOST_LINES] if candidate.pk in ids else []
    arena = drawable(board.arena.name, board.arena.slug)
    heading = {
        "title": drawable(str(candidate), f"Candidate {candidate.pk}"),
        "subtitle": f"{arena}: {says}",
    }
    return _draw_picture(board, heading, near, _picture_lines(near, candidate.pk))


def render_png(svg: str) -> bytes:
    """Render a picture of WIDTH x HEIGHT; only the SVG and the two fonts are read."""
    return svg_to_bytes(
        svg_string=svg,
        skip_system_fonts=True,
        font_files=FONTS,
        font_family="Source Sans Pro",
        sans_serif_family="Source Sans Pro",
    )


def _draw_picture(
    board: PublishedBoard,
    heading: dict[str, str],
    standings: Sequence[Standing],
    lines: list[Line],
    n_more: int = 0,
) -> str:
    collecting = wording.collecting(board.snapshot)
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
        "n_more": n_more,
        "ticks": ScoreAxis.covering(standings).ticks() if lines else [],
        "bottom": FIRST_LINE - 32 + LINE_HEIGHT * len(lines),
    }
    return render_to_string("ranking/picture.svg", context).strip()


def _ranked_standings(board: PublishedBoard) -> list[Standing]:
    """Without enough votes nobody has a rank yet."""
    if wording.collecting(board.snapshot):
        return []
    return [row for row in board.standings if row.rank is not None]


def _picture_lines(standings: Sequence[Standing], chosen: int | None) -> list[Line]:
    axis = ScoreAxis.covering(standings)
    return [
        Line(
            y=FIRST_LINE + LINE_HEIGHT * number,
            rank=wording.possible_ranks(row, "–") or NONE,
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


@require_safe
@policy(ALONE)
def board_picture(request: HttpRequest, slug: str) -> HttpResponseBase:
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> bytes:
        return render_png(draw_board(read_published(arena, query)))

    return send_picture(request, slug, query.key("picture"), PNG, make)


def draw_ahead(arena_id: int) -> None:
    """Draw the picture of an arena's leaderboard before anybody asks for it, and store it; private
    arenas have none."""
    slug = Arena.objects.values_list("slug", flat=True).get(pk=arena_id)
    with suppress(Http404):
        arena, query = find_arena(slug), BoardQuery()
        picture = pack(render_png(draw_board(read_published(arena, query))))
        store(arena=arena, epoch=arena.page_epoch, key=query.key("picture"), page=picture)


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
        says = wording.describe_standing(next(rows, None))
        return render_png(draw_candidate(board, candidate, says))

    return send_picture(request, slug, query.key(f"picture-{pk}"), PNG, make)
