"""Head to head: two candidates, or the win matrix until two are chosen."""

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from arena.models import Candidate
from ranking import candidate_votes, http_cache
from ranking.board_data import BoardQuery, find_arena
from ranking.candidate_votes import VoteFilters
from ranking.claim_words import parts_sentence, share_words, verdict_sentence, what_else
from ranking.comparison import (
    ChosenPair,
    PublishedBoard,
    load_difference_boards,
    read_published,
    why_unscored,
)
from ranking.http_cache import HTML, send, send_stored
from ranking.models import Snapshot, Standing
from ranking.views.matrix import clean_show, comparisons_url, matrix_context


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
    two = (a.candidate.pk, b.candidate.pk)
    differences = load_difference_boards(board.arena, [snapshot], two)[snapshot.pk]
    difference, raters = differences.difference(*two), board.query.raters
    names = (str(a.candidate), str(b.candidate))
    wins, interval = share_words(difference.claim)
    return {
        "title": f"{a.candidate} vs. {b.candidate}",
        "a": a,
        "b": b,
        "difference": difference,
        "record": differences.record(*two),
        "verdict": verdict_sentence(difference.claim, *names, raters=raters),
        "what_else": what_else(difference.claim, raters),
        "wins": wins,
        "interval": interval,
        "parts": parts_sentence(difference.claim),
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
