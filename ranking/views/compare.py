"""The compare page of two candidates, and all boards of an arena side by side."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from django.http import Http404

from arena.models import Candidate
from ranking import record, wording
from ranking.board_data import (
    BoardQuery,
    RankCorrelation,
    choice_links,
    page_links,
    rank_correlation,
)
from ranking.comparison import (
    ChosenPair,
    DifferenceBoard,
    PublishedBoard,
    comparisons_url,
    read_pairs,
    standings_with_candidates,
    why_unscored,
)
from ranking.models import Counted, Snapshot, Standing
from ranking.record import VoteFilters
from ranking.stats.differences import Lead
from ranking.wording import Remark

# -- Two candidates --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ComparedSide:
    """One of the two candidates; `why`: the reason for having no score, or ''."""

    candidate: Candidate
    standing: Standing | None
    url: str
    why: str


def compare_context(board: PublishedBoard, pair: ChosenPair, page: str) -> dict[str, Any]:
    """The context of `ranking/compare.html`. Raises Http404 for unknown candidates."""
    sides = [_find_side(board, pk) for pk in (pair.a, pair.b) if pk is not None]
    a_chosen = pair.a or _best_besides(board, pair.b)
    parameters = {"a": str(pair.a or ""), "b": str(pair.b or "")}
    context = {
        "arena": board.arena,
        "board": board,
        "snapshot": board.snapshot,
        "a_chosen": a_chosen,
        "b_chosen": pair.b or _best_besides(board, a_chosen),
        "same": len(sides) == 2 and pair.a == pair.b,
        "page_links": board.page_links("compare"),
        "raters_links": board.raters_links("compare", **parameters),
        "category_links": board.category_links("compare", **parameters),
    }
    if len(sides) < 2 or pair.a == pair.b or board.snapshot is None:
        return context
    a, b = sides
    return context | _compare(board, board.snapshot, a, b) | _list_votes(board, a, b, page)


def _find_side(board: PublishedBoard, pk: int) -> ComparedSide:
    """A candidate of the arena, with an extra query if it is not on the board."""
    standing = next((row for row in board.standings if row.candidate_id == pk), None)
    if standing:
        candidate = standing.candidate
    else:
        found = Candidate.objects.revealed().filter(arena=board.arena, pk=pk).first()
        if found is None:
            raise Http404("There is no such candidate.")
        candidate = found
    return ComparedSide(candidate, standing, comparisons_url(board, pk), why_unscored(standing))


def _best_besides(board: PublishedBoard, other: int | None) -> int | None:
    """The default choice of a select: the best candidate that is not the `other`."""
    ids = [standing.candidate_id for standing in board.standings]
    return next((pk for pk in ids if pk != other), None)


def _compare(
    board: PublishedBoard, snapshot: Snapshot, a: ComparedSide, b: ComparedSide
) -> dict[str, Any]:
    pairs = read_pairs(board)
    context = {
        "a": a,
        "b": b,
        "confidence": f"{100 * snapshot.settings['confidence']:g} %",
        "seen_fewer": 0 < snapshot.measured_votes < snapshot.n_votes,
    }
    if pairs is None:
        return context
    standings = {standing.candidate_id: standing for standing in board.standings}
    differences = DifferenceBoard(snapshot, standings, pairs)
    two = (a.candidate.pk, b.candidate.pk)
    difference = differences.difference(*two, forecast=False, once=True)
    return context | {
        "difference": difference,
        "record": differences.record(*two),
        "win_rate": differences.win_rate(*two),
        "verdict": wording.verdict(str(a.candidate), str(b.candidate), difference),
        "more_votes": wording.votes_to_separate(differences.votes_to_separate(*two))
        if difference.lead is Lead.OPEN and difference.elo is not None
        else "",
        # On a combined board, human votes are not all the evidence.
        "source": ""
        if board.is_combined
        else wording.evidence(differences.evidence_share(*two), difference.between),
    }


def _list_votes(
    board: PublishedBoard, a: ComparedSide, b: ComparedSide, page: str
) -> dict[str, Any]:
    """A page of the votes between the two, seen from the first."""
    filters = VoteFilters(board.voters, "", b.candidate.pk, board.query.category)
    votes = record.list_votes(a.candidate, filters, page)
    address = board.address("compare", a=str(a.candidate.pk), b=str(b.candidate.pk))

    def page_url(number: int) -> str:
        return f"{address}&page={number}#comparisons"

    return {
        "page": votes,
        "newer_url": page_url(votes.number - 1) if votes.has_previous() else "",
        "older_url": page_url(votes.number + 1) if votes.has_next() else "",
    }


# -- All boards side by side -----------------------------------------------------------------------

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
        """Whether there is a board whose interval does not overlap."""
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
    snapshots, columns = _read(arena, query)
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


def _read(
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
        return _read(arena, query, retry=False)
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
        (column, _shift(columns[0], column))
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


def _shift(reference: RaterColumn, other: RaterColumn) -> float:
    """How much higher the other board's scale is for the candidates that both rank: each board
    averages 1000 over its own candidates."""
    reference_scores, other_scores = reference.scores, other.scores
    shared = reference_scores.keys() & other_scores.keys()
    return sum(other_scores[pk] - reference_scores[pk] for pk in shared) / len(shared or [0])


def _by_rank(line: ComparedCandidate) -> tuple[Any, ...]:
    ranks = [row.rank if row and row.rank else 10**9 for row in line.cells]
    return (*ranks, str(line.candidate).casefold(), line.candidate.pk)


def _by_difference(line: ComparedCandidate) -> tuple[Any, ...]:
    size = line.disagreement.size
    return size is None, -(size or 0), _by_rank(line)
