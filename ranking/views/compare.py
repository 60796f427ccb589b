"""Head to head: two candidates, or the win matrix of all; and all boards side by side."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import isnan
from typing import Any
from urllib.parse import urlencode

import numpy as np
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from arena.models import Candidate
from arena.validation import shorten_apart
from ranking import candidate_votes, http_cache, wording
from ranking.board_data import (
    BoardQuery,
    choice_links,
    find_arena,
    page_links,
)
from ranking.candidate_votes import VoteFilters
from ranking.comparison import (
    ChosenPair,
    DifferenceBoard,
    PublishedBoard,
    PublishedPairs,
    read_pairs,
    read_published,
    standings_with_candidates,
    why_unscored,
)
from ranking.http_cache import HTML, send, send_stored
from ranking.models import Counted, Snapshot, Standing
from ranking.rank_correlation import RankCorrelation, rank_correlation
from ranking.stats.bradley_terry import WinMatrix, predicted_shares
from ranking.stats.differences import Lead
from ranking.templatetags.ranking_tags import percent
from ranking.votes import Floats, Ints
from ranking.wording import Remark


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
        "all_url": board.address("compare"),
        "same": len(sides) == 2 and pair.a == pair.b,
        "page_links": board.page_links("compare"),
        "raters_links": board.raters_links("compare", **parameters),
        "category_links": board.category_links("compare", **parameters),
    }
    if len(sides) < 2 or pair.a == pair.b or board.snapshot is None:
        return context
    a, b = sides
    return context | _pair_context(board, board.snapshot, a, b) | _list_votes(board, a, b, page)


def _find_side(board: PublishedBoard, pk: int) -> ComparedSide:
    """A candidate of the arena, with an extra query if it is not on the board."""
    standing = next((row for row in board.standings if row.candidate_id == pk), None)
    if standing:
        candidate = standing.candidate
    else:
        off_board = Candidate.objects.revealed().filter(arena=board.arena, pk=pk).first()
        if off_board is None:
            raise Http404("There is no such candidate.")
        candidate = off_board
    return ComparedSide(candidate, standing, comparisons_url(board, pk), why_unscored(standing))


def _best_besides(board: PublishedBoard, other: int | None) -> int | None:
    """The default choice of a select: the best candidate that is not the `other`."""
    ids = [standing.candidate_id for standing in board.standings]
    return next((pk for pk in ids if pk != other), None)


def _pair_context(
    board: PublishedBoard, snapshot: Snapshot, a: ComparedSide, b: ComparedSide
) -> dict[str, Any]:
    pairs = read_pairs(board)
    context = {
        "title": f"{a.candidate} vs. {b.candidate}",
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
    votes = candidate_votes.list_votes(a.candidate, filters, page)
    address = board.address("compare", a=str(a.candidate.pk), b=str(b.candidate.pk))

    def page_url(number: int) -> str:
        return f"{address}&page={number}#comparisons"

    return {
        "page": votes,
        "newer_url": page_url(votes.number - 1) if votes.has_previous() else "",
        "older_url": page_url(votes.number + 1) if votes.has_next() else "",
    }


MOST_ROWS = 100  # and columns; nobody can read a larger table
FIRST_ROWS = 30  # of the table at first
SHOWS = {"observed": "Actual", "predicted": "Predicted"}
NAME_LENGTH = 22  # characters of a name that fit a column heading
SHADE_STEPS = (0.05, 0.12, 0.2, 0.3)  # how far from one half each shade begins


def clean_show(show: str) -> str:
    return show if show in SHOWS else "observed"


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """A row's win rate against a column; `says` replaces a missing one."""

    share: str
    votes: int
    shade: str
    url: str
    says: str


@dataclass(frozen=True)
class MatrixRow:
    standing: Standing
    name: str
    short: str
    cells: list[MatrixCell]


@dataclass(frozen=True, eq=False)
class MatrixTable:
    """(K, K) each: the win rates, the votes that they count, all votes, and the CSS classes."""

    share: Floats
    votes: Ints
    all_votes: Ints
    shade: list[list[str]]
    no_share: str


def _parameter(show: str) -> str:
    return "" if show == "observed" else show


def matrix_context(board: PublishedBoard, show: str, show_all: bool = False) -> dict[str, Any]:
    """The context of `ranking/_matrix.html`; `show` is one of SHOWS."""
    pairs = read_pairs(board)
    rows = "all" if show_all else ""

    def address(show: str, rows: str) -> str:
        return board.address("compare", show=_parameter(show), rows=rows)

    n_shown = MOST_ROWS if show_all else FIRST_ROWS
    return {
        "show": show,
        "lines": _matrix_rows(board, pairs, show, n_shown) if pairs else [],
        "n_candidates": len(board.standings),
        "all_rows_url": "" if show_all else address(show, "all"),
        "show_links": choice_links(SHOWS.items(), show, lambda value: address(value, rows)),
        "raters_links": board.raters_links("compare", show=_parameter(show)),
        "category_links": board.category_links("compare", show=_parameter(show)),
    }


def _matrix_rows(
    board: PublishedBoard, pairs: PublishedPairs, show: str, n_shown: int
) -> list[MatrixRow]:
    """The first `n_shown` candidates in rank order, each against all of them."""
    table = _matrix_table(pairs, show)
    standings = board.standings[:n_shown]
    ids = [standing.candidate_id for standing in standings]
    places = np.searchsorted(pairs.candidates, ids).tolist()
    opponents = list(zip(places, ids, strict=True))
    names = [str(standing.candidate) for standing in standings]
    short = shorten_apart(names, NAME_LENGTH)
    rows = []
    for i, standing, name, label in zip(places, standings, names, short, strict=True):
        cells = _matrix_cells(comparisons_url(board, standing.candidate_id), i, opponents, table)
        rows.append(MatrixRow(standing, name, label, cells))
    return rows


def _matrix_table(pairs: PublishedPairs, show: str) -> MatrixTable:
    observed = pairs.observed
    is_predicted = show == "predicted"
    share = predicted_shares(pairs.theta) if is_predicted else observed.share
    all_votes = np.zeros((len(pairs.candidates),) * 2, np.int64)
    first = np.searchsorted(pairs.candidates, pairs.counts.first)
    second = np.searchsorted(pairs.candidates, pairs.counts.second)
    all_votes[first, second] = pairs.counts.votes
    return MatrixTable(
        share=share,
        votes=observed.votes,
        all_votes=all_votes + all_votes.T,
        shade=_shade_classes(share if is_predicted else _shrunk_shares(observed)),
        no_share="not comparable" if is_predicted else "no votes",
    )


def _matrix_cells(
    address: str, i: int, opponents: list[tuple[int, int]], table: MatrixTable
) -> list[MatrixCell]:
    """The cells of a row; each links to its votes, if there are any."""
    share, votes = table.share[i].tolist(), table.votes[i].tolist()
    all_votes = table.all_votes[i].tolist()

    def without_share(j: int) -> str:
        if j == i:
            return "itself"
        return "both bad" if all_votes[j] and not votes[j] else table.no_share

    return [
        MatrixCell(
            share="" if isnan(share[j]) else percent(share[j]),
            votes=votes[j],
            shade=table.shade[i][j],
            url=f"{address}&opponent={pk}#comparisons" if all_votes[j] else "",
            says=without_share(j),
        )
        for j, pk in opponents
    ]


def _shrunk_shares(observed: WinMatrix) -> Floats:
    """The shares with two wins and two losses added, so that a few votes give little colour.

    This is the centre of the interval of Agresti and Coull 1998 for a share.
    """
    shrunk: Floats = (observed.share * observed.votes + 2) / (observed.votes + 4)
    return shrunk


def _shade_classes(share: Floats) -> list[list[str]]:
    """(K, K) classes: `over-1` to `over-4` above one half, `under-1` to `under-4` below it."""
    step = np.searchsorted(SHADE_STEPS, np.abs(np.nan_to_num(share, nan=0.5) - 0.5), side="right")
    steps = range(1, len(SHADE_STEPS) + 1)
    above = np.array(["", *(f"over-{n}" for n in steps)], object)
    below = np.array(["", *(f"under-{n}" for n in steps)], object)
    shades: list[list[str]] = np.where(share > 0.5, above[step], below[step]).tolist()
    return shades


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


def comparisons_url(board: PublishedBoard, candidate: int) -> str:
    """The URL that lists a candidate's votes on this board; an opponent may be appended."""
    parameters = {"raters": board.voters, "category": board.query.category}
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{reverse('candidate', args=[board.arena.slug, candidate])}?{query}"


@require_safe
def win_matrix(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Redirect to the page "Head to head", which has the matrix now."""
    arena = find_arena(slug, actor_of(request))
    response = redirect("compare", slug=arena.slug, permanent=True)
    response["Location"] += f"?{request.GET.urlencode()}" if request.GET else ""
    return response


@require_safe
def compare(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Two candidates, or the matrix of all until two are chosen; only the latter is stored."""
    query, pair = BoardQuery.unsorted(request.GET), ChosenPair.of(request.GET)
    show, show_all = clean_show(request.GET.get("show", "")), request.GET.get("rows") == "all"

    def make(arena: Any) -> str:
        board = read_published(arena, query)
        context = compare_context(board, pair, request.GET.get("page", "1"))
        if pair.a is None or pair.b is None:
            context |= matrix_context(board, show, show_all)
        return render_to_string("ranking/compare.html", context)

    if pair.a is None and pair.b is None:
        key = f"compare-{show}{'-all' if show_all else ''}"
        return send_stored(request, slug, query.key(key), HTML, make)
    arena = find_arena(slug, actor_of(request))
    return send(request, http_cache.pack(make(arena)), HTML, private=arena.is_private)


@require_safe
def side_by_side(request: HttpRequest, slug: str) -> HttpResponseBase:
    query, order = BoardQuery.unsorted(request.GET), clean_order(request.GET.get("order", ""))

    def make(arena: Any) -> str:
        context = side_by_side_context(arena, query, order)
        return render_to_string("ranking/side_by_side.html", context)

    return send_stored(request, slug, query.key(f"side-by-side-{order}"), HTML, make)
