"""People and judges side by side: each candidate on the leaderboards of all kinds of raters."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.models import Candidate
from ranking import wording
from ranking.board_data import BoardQuery, choice_links, page_links
from ranking.comparison import standings_with_candidates
from ranking.http_cache import HTML, send_stored
from ranking.models import Counted, Snapshot, Standing
from ranking.rank_correlation import RankCorrelation, rank_correlation
from ranking.wording import Remark

PAGE = "side_by_side"
ORDERS = {"rank": "By rank", "difference": "Largest difference first"}


@dataclass(frozen=True)
class RaterColumn:
    """A board that has votes: its name and address, and its standings by candidate."""

    raters: str
    label: str
    url: str
    snapshot: Snapshot
    standings: dict[int, Standing]

    @property
    def scores(self) -> dict[int, float]:
        rows = self.standings.values()
        return {row.candidate_id: row.score for row in rows if row.score is not None}


@dataclass(frozen=True)
class Disagreement:
    """Remarks about one candidate, one for each other board."""

    remarks: list[Remark]

    @property
    def size(self) -> float | None:
        """The largest difference in Elo; None if there is none."""
        sizes = [abs(row.difference) for row in self.remarks if row.difference is not None]
        return max(sizes, default=None)

    @property
    def is_apart(self) -> bool:
        """Whether the interval of some board does not overlap."""
        return any(remark.is_apart for remark in self.remarks)


@dataclass(frozen=True)
class ComparedCandidate:
    """A candidate, its standing on each board (None if it is not on it), and the disagreement."""

    candidate: Candidate
    cells: list[Standing | None]
    disagreement: Disagreement
    is_largest: bool


@dataclass(frozen=True)
class BoardPair:
    """Two boards, and how well their ranks agree."""

    first: str
    second: str
    correlation: RankCorrelation


def clean_order(text: str) -> str:
    return text if text in ORDERS else "rank"


def side_by_side_context(arena: Any, query: BoardQuery, order: str) -> dict[str, Any]:
    """The context of `ranking/side_by_side.html`. Raises Http404 for unknown categories."""
    snapshots, columns = _read_rater_columns(arena, query)
    lines = _compare_candidates(columns)
    categories = sorted({snapshot.board.category for snapshot in snapshots})
    return {
        "arena": arena,
        "has_snapshots": bool(snapshots),
        "columns": columns,
        "lines": sorted(lines, key=_by_difference) if order == "difference" else lines,
        "pairings": [
            BoardPair(a.label, b.label.lower(), rank_correlation(a.scores, b.scores))
            for a, b in combinations(columns, 2)
        ],
        "n_apart": sum(line.disagreement.is_apart for line in lines),
        "is_shifted": any(c.scores.keys() != columns[0].scores.keys() for c in columns[1:]),
        "reference": columns[0].raters if columns else "",
        "page_links": page_links(arena.slug, query, snapshots, PAGE),
        "category_links": choice_links(
            [(name, name or "All prompts") for name in categories],
            query.category,
            lambda name: query.address(arena.slug, PAGE, raters="", category=name),
        ),
        "order_links": choice_links(
            ORDERS.items(),
            order,
            lambda name: query.address(
                arena.slug, PAGE, raters="", order="" if name == "rank" else name
            ),
        ),
    }


def _read_rater_columns(
    arena: Any, query: BoardQuery, retry: bool = True
) -> tuple[list[Snapshot], list[RaterColumn]]:
    """The current snapshots, and the boards of the category that have votes, people's first.

    Two queries, twice if a refresh replaces a snapshot between them.
    """
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    in_category = [s for s in snapshots if s.board.category == query.category]
    if query.category and not in_category:
        raise Http404("There is no such leaderboard.")
    by_raters = {s.board.raters: s for s in in_category if s.n_votes}
    standings: dict[int, dict[int, Standing]] = {s.pk: {} for s in by_raters.values()}
    for standing in standings_with_candidates(by_raters.values()):
        standings[standing.snapshot_id][standing.candidate_id] = standing
    if retry and not all(standings.values()):
        return _read_rater_columns(arena, query, retry=False)
    return snapshots, [
        RaterColumn(
            raters,
            label,
            query.address(arena.slug, raters=raters),
            by_raters[raters],
            standings[by_raters[raters].pk],
        )
        for raters, label in Counted.choices
        if raters in by_raters and raters != Counted.VERIFIED
    ]


def _compare_candidates(columns: list[RaterColumn]) -> list[ComparedCandidate]:
    """One per candidate, in the order of the first board that ranks it."""
    candidates: dict[int, Candidate] = {}
    for column in columns:
        candidates |= {pk: row.candidate for pk, row in column.standings.items()}
    others = [
        (column, _scale_shift(columns[0], column))
        for column in columns[1:]
        if column.raters != Counted.COMBINED
    ]
    disagreements = {pk: _disagreement(pk, columns[0], others) for pk in candidates}
    sizes = {pk: row.size for pk, row in disagreements.items() if row.size}
    largest = max(sizes, key=lambda pk: sizes[pk]) if sizes else None
    lines = [
        ComparedCandidate(
            candidate,
            [column.standings.get(pk) for column in columns],
            disagreements[pk],
            pk == largest,
        )
        for pk, candidate in candidates.items()
    ]
    return sorted(lines, key=_by_rank)


def _disagreement(
    pk: int, reference: RaterColumn, others: Iterable[tuple[RaterColumn, float]]
) -> Disagreement:
    own = reference.standings.get(pk)
    return Disagreement(
        [
            wording.disagreement(
                reference.raters, own, other.raters, other.standings.get(pk), shift
            )
            for other, shift in others
        ]
    )


def _scale_shift(reference: RaterColumn, other: RaterColumn) -> float:
    """How much higher the other board's scale is for the candidates that both rank, because each
    board averages 1000 over its own candidates."""
    reference_scores, other_scores = reference.scores, other.scores
    shared = reference_scores.keys() & other_scores.keys()
    return sum(other_scores[pk] - reference_scores[pk] for pk in shared) / len(shared or [0])


def _by_rank(line: ComparedCandidate) -> tuple[Any, ...]:
    ranks = [row.rank if row and row.rank else 10**9 for row in line.cells]
    return (*ranks, str(line.candidate).casefold(), line.candidate.pk)


def _by_difference(line: ComparedCandidate) -> tuple[Any, ...]:
    size = line.disagreement.size
    return size is None, -(size or 0), _by_rank(line)


@require_safe
def side_by_side(request: HttpRequest, slug: str) -> HttpResponseBase:
    query, order = BoardQuery.unsorted(request.GET), clean_order(request.GET.get("order", ""))

    def make(arena: Any) -> str:
        context = side_by_side_context(arena, query, order)
        return render_to_string("ranking/side_by_side.html", context)

    return send_stored(request, slug, query.key(f"side-by-side-{order}"), HTML, make)
