"""A candidate's page: its standings, its configuration, the votes behind its score, and
the score history of a board: a line per candidate, and the same numbers as a table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.actors import ANONYMOUS, actor_of
from arena.models import Candidate, Comparison, Reason, Vote
from arena.permissions import can_read_authors, can_read_texts, visible_arenas
from arena.services.candidates import votes_so_far
from arena.services.comparisons import prompt_html, response_html
from arena.views import voting
from ranking import record, wording
from ranking.board_data import (
    LARGEST_ID,
    BoardQuery,
    choice_links,
    choose_snapshot,
    parse_id,
)
from ranking.comparison import PublishedBoard
from ranking.costs import read_costs
from ranking.http_cache import send_template
from ranking.models import Raters, Snapshot, Standing
from ranking.raters import count_reasons
from ranking.record import VoteFilters, disclosure_rule
from ranking.views.charts import LineChart, ScoreAt, Series, bump_chart, line_chart
from ranking.views.embeds import describe_standing


@require_safe
def candidate(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    if pk > LARGEST_ID:
        raise Http404("There is no such candidate.")
    actor = actor_of(request)
    arenas = visible_arenas(actor).filter(slug=slug)
    revealed = Candidate.objects.revealed().select_related("arena", "team")
    revealed = revealed.annotate(so_far=votes_so_far())
    candidate = get_object_or_404(revealed, arena__in=arenas, pk=pk)
    arena = candidate.arena
    voters = record.list_voters(candidate)
    filters = VoteFilters.of(request.GET, voters)
    page = record.list_votes(candidate, filters, request.GET.get("page", "1"))
    standings = _standings(candidate)
    # The chart shows the first board with a score, human votes before others.
    charted = next((standing for standing in standings if standing.score is not None), None)
    # The sentence is about the leaderboard that opens first, as the picture is.
    first = choose_snapshot([standing.snapshot for standing in standings], BoardQuery())
    described = next((standing for standing in standings if standing.snapshot == first), None)
    for_its_team = candidate.disclosed_at is None and can_read_texts(actor, candidate)
    context = {
        "arena": arena,
        "candidate": candidate,
        "description": f"{candidate} in {arena.name}: {describe_standing(described)}.",
        # In pairs: a template would take a parameter named "items" for the method.
        "parameters": list(candidate.parameters.items()),
        "for_its_team": for_its_team,
        "disclosure": disclosure_rule(candidate),
        "standings": [
            (title, rows)
            for title, rows in (
                ("All prompts", [s for s in standings if not s.snapshot.board.category]),
                ("By category", [s for s in standings if s.snapshot.board.category]),
            )
            if rows
        ],
        "described": described,
        "charted": charted,
        "chart": candidate_chart(charted) if charted else None,
        "history_url": _history_url(candidate, charted) if charted else "",
        "record": [
            (row, _votes_url(candidate, raters=filters.raters, opponent=row.opponent.pk))
            for row in record.count_record(candidate, filters.raters)
        ],
        "categories": [
            (
                row,
                _votes_url(candidate, raters=filters.raters, category=row.category, result="won"),
                _votes_url(candidate, raters=filters.raters, category=row.category, result="lost"),
            )
            for row in record.count_categories(candidate, filters.raters)
            if row.category
        ],
        "costs": read_costs(arena, "").get(candidate.pk),
        "filters": filters,
        "raters_links": choice_links(
            [(raters, str(Raters(raters).label)) for raters in voters],
            filters.raters,
            lambda raters: _url(candidate, raters=raters),
        ),
        "results": record.RESULTS.items(),
        "reasons": [
            reason
            for reason in count_reasons(arena)
            if reason.candidate == candidate.pk and (reason.stands_out or not reason.category)
        ],
        "page": page,
        "any_category_url": _page_url(candidate, replace(filters, category=""), 1),
        "newer_url": _page_url(candidate, filters, page.number - 1) if page.has_previous() else "",
        "older_url": _page_url(candidate, filters, page.number + 1) if page.has_next() else "",
    }
    private = arena.is_private or for_its_team
    return send_template(request, "ranking/candidate.html", context, private=private)


def _standings(candidate: Candidate) -> list[Standing]:
    current = Standing.objects.filter(candidate=candidate, snapshot__is_current=True)
    standings = current.select_related("candidate", "snapshot__board", "elo_interval")
    return list(standings.order_by("-snapshot__board__raters", "snapshot__board__category"))


def _history_url(candidate: Candidate, standing: Standing) -> str:
    board = standing.snapshot.board
    query = BoardQuery(board.raters, board.category)
    return query.address(candidate.arena.slug, "history", candidate=str(candidate.pk))


def _page_url(candidate: Candidate, filters: VoteFilters, number: int) -> str:
    names = ("raters", "result", "opponent", "category")
    parameters = {name: getattr(filters, name) for name in names}
    return _votes_url(candidate, **parameters, page=number)


def _votes_url(candidate: Candidate, **parameters: Any) -> str:
    return f"{_url(candidate, **parameters)}#comparisons"


def _url(candidate: Candidate, **parameters: Any) -> str:
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{reverse('candidate', args=[candidate.arena.slug, candidate.pk])}?{query}"


@require_safe
def comparison(request: HttpRequest, slug: str, key: UUID) -> HttpResponseBase:
    """The prompt, both answers and the votes; 404 until there is a vote that may be listed."""
    actor = actor_of(request)
    arena = get_object_or_404(visible_arenas(actor), slug=slug)
    voted = Exists(Vote.objects.revealed().listed().filter(comparison=OuterRef("pk")))
    comparison = get_object_or_404(
        Comparison.objects.with_texts().filter(voted, arena=arena), key=key
    )
    sides = (
        ("Left", comparison.left, comparison.left_response),
        ("Right", comparison.right, comparison.right_response),
    )
    to_all = can_read_authors(ANONYMOUS, arena, comparison.prompt)
    voted_here = comparison.rater_id is not None and comparison.rater_id == _reader_id(request)
    named = to_all or can_read_authors(actor, arena, comparison.prompt, voted=voted_here)
    context = {
        "arena": arena,
        "comparison": comparison,
        "title": f"{comparison.left} vs. {comparison.right}",
        "prompt": prompt_html(comparison.prompt)
        if comparison.prompt and comparison.prompt.text
        else "",
        "sides": [
            {
                "side": side,
                "candidate": candidate,
                "html": response_html(response)
                if response and (named or can_read_texts(actor, candidate))
                else None,
                "withheld": response is not None,
            }
            for side, candidate, response in sides
        ],
        # A comment may quote an answer, so it is shown to those who may read the answers.
        "comments": Reason.objects.filter(vote__in=comparison.votes.revealed(), side=Reason.BOTH)
        if named
        else [],
        "votes": comparison.votes.revealed().select_related("rater").order_by("pk"),
    }
    private = arena.is_private or not to_all
    return send_template(request, "ranking/comparison.html", context, private=private)


def _reader_id(request: HttpRequest) -> int | None:
    """The rater that the reader votes as, if they have voted before."""
    rater = voting.find_rater(request)
    return rater.pk if rater else None


MOST_LINES = 10  # more can't be told apart
MOST_NAMED = 5  # in the chart of ranks, unless readers choose
MOST_RANKED = 50  # lines of the chart of ranks
MOST_SNAPSHOTS = 100  # if there are more, this many at even intervals are shown


PAST = ("pk", "published_at", "n_votes", "digest")


@dataclass(frozen=True)
class PastSnapshot:
    pk: int
    published_at: datetime
    n_votes: int
    digest: str  # empty if it was computed afterwards, from the dates of the votes


@dataclass(frozen=True)
class HistoryRow:
    """A line of the table: a snapshot, and the score of each candidate shown."""

    past: PastSnapshot
    cells: list[ScoreAt]


def parse_candidates(texts: Iterable[str]) -> list[int]:
    """Parse the ids in a URL, without duplicates; invalid ones are ignored."""
    return list(dict.fromkeys(pk for text in texts if (pk := parse_id(text)) is not None))


def history_context(board: PublishedBoard, candidates: Sequence[int]) -> dict[str, Any]:
    """The context of `ranking/history.html`, by default for the first candidates by rank."""
    by_id = {standing.candidate_id: standing for standing in board.standings}
    named = [pk for pk in candidates if pk in by_id]
    if named:
        standings = [row for row in board.standings if row.candidate_id in named[:MOST_LINES]]
    else:
        standings = [row for row in board.standings if row.score is not None][:MOST_LINES]
    snapshots, n_snapshots = _read_snapshots(board)
    series = _read_series(snapshots, standings)
    rows = [
        HistoryRow(past, [line.moments[i] for line in series]) for i, past in enumerate(snapshots)
    ]
    return {
        "arena": board.arena,
        "board": board,
        "snapshot": board.snapshot,
        "collecting": wording.collecting(board.snapshot, {}),
        "shown": standings,
        "chosen": {standing.candidate_id for standing in standings},
        "too_many": len(set(named)) > MOST_LINES,
        "lines": MOST_LINES,
        "n_there": n_snapshots,
        "kept": snapshots,
        "computed_until": max((p.published_at for p in snapshots if not p.digest), default=None),
        "chart": _chart(series),
        "ranks": _rank_chart(board, snapshots, standings if named else standings[:MOST_NAMED]),
        "rows": rows[::-1],  # the newest first
        "alone": len(standings) == 1,
        "page_links": board.page_links("history"),
        "raters_links": board.raters_links("history"),
        "category_links": board.category_links("history"),
    }


def _read_snapshots(board: PublishedBoard) -> tuple[list[PastSnapshot], int]:
    """The snapshots to show, the oldest first, and how many there are."""
    if board.snapshot is None:
        return [], 0
    snapshots = Snapshot.objects.filter(board=board.snapshot.board_id).filter(
        Q(is_history=True) | Q(pk=board.snapshot.pk)
    )
    rows = snapshots.order_by("published_at", "pk").values_list(*PAST)
    past = [PastSnapshot(*row) for row in rows]
    return thinned(past), len(past)


def thinned(past: Sequence[PastSnapshot]) -> list[PastSnapshot]:
    """At most MOST_SNAPSHOTS of them at about even intervals, with the first and the last."""
    if len(past) <= MOST_SNAPSHOTS:
        return list(past)
    first, last = past[0].published_at, past[-1].published_at
    span = (last - first) or (last.resolution * len(past))
    by_slot = {int((MOST_SNAPSHOTS - 2) * ((p.published_at - first) / span)): p for p in past[1:]}
    return [past[0], *by_slot.values()]


def _read_series(snapshots: Sequence[PastSnapshot], standings: Sequence[Standing]) -> list[Series]:
    """One query: the scores of the candidates shown, in each snapshot."""
    if not snapshots or not standings:
        return []
    rows = Standing.objects.filter(
        snapshot__in=[past.pk for past in snapshots],
        candidate__in=[standing.candidate_id for standing in standings],
    ).values_list("candidate", "snapshot", "score", "low", "high")
    scores = {(candidate, snapshot): numbers for candidate, snapshot, *numbers in rows}
    none = [None, None, None]
    return [
        Series(
            str(standing.candidate),
            [
                ScoreAt(past.published_at, *scores.get((standing.candidate_id, past.pk), none))
                for past in snapshots
            ],
        )
        for standing in standings
    ]


def _rank_chart(
    board: PublishedBoard, snapshots: Sequence[PastSnapshot], named: Sequence[Standing]
) -> LineChart | None:
    """One query: the ranks of the first candidates over time, with some of them named."""
    ranked = [row for row in board.standings if row.rank is not None][:MOST_RANKED]
    if len(ranked) < 2 or len(snapshots) < 2:
        return None
    chosen = {standing.candidate_id for standing in named}
    rest = [row for row in ranked if row.candidate_id not in chosen]
    lines = [*(row for row in named if row.rank is not None), *rest]
    rows = Standing.objects.filter(
        snapshot__in=[past.pk for past in snapshots],
        candidate__in=[standing.candidate_id for standing in lines],
    ).values_list("candidate", "snapshot", "rank")
    ranks = {(candidate, snapshot): rank for candidate, snapshot, rank in rows}
    series = [
        Series(
            str(standing.candidate),
            [
                ScoreAt(past.published_at, ranks.get((standing.candidate_id, past.pk)))
                for past in snapshots
            ],
        )
        for standing in lines
    ]
    n_named = len(lines) - len(rest)
    return bump_chart(series[:n_named], series[n_named:])


def candidate_chart(standing: Standing) -> LineChart | None:
    """One query: how a candidate's score changed on one board; None without a history."""
    standings = Standing.objects.filter(
        Q(snapshot__is_history=True) | Q(snapshot__is_current=True),
        candidate=standing.candidate_id,
        snapshot__board=standing.snapshot.board_id,
    ).order_by("snapshot__published_at", "snapshot")
    past = (f"snapshot__{name}" for name in PAST)
    rows = standings.values_list(*past, "score", "low", "high")
    scores = {PastSnapshot(*row[: len(PAST)]): row[len(PAST) :] for row in rows}
    moments = [ScoreAt(past.published_at, *scores[past]) for past in thinned(list(scores))]
    return _chart([Series(str(standing.candidate), moments)])


def _chart(series: Sequence[Series]) -> LineChart | None:
    return line_chart(series, band=len(series) == 1)
