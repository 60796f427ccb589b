"""Compare: two candidates, the first two until others are chosen, and all pairs as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from arena.actors import ANONYMOUS, Actor, actor_of
from arena.language import translated
from arena.models import Candidate
from arena.validation import join_names
from ranking import candidate_votes, http_cache
from ranking.board_data import BoardQuery, Findings, find_arena
from ranking.candidate_votes import VoteFilters
from ranking.claim_words import parts_sentence, share_words, verdict_sentence, what_else
from ranking.comparison import (
    ChosenPair,
    DifferenceBoard,
    DirectRecord,
    PublishedBoard,
    StyleDifference,
    load_difference_boards,
    read_published,
    why_unscored,
)
from ranking.costs import UNKNOWN_COSTS, CostAndSpeed, read_costs
from ranking.http_cache import HTML, in_language, send
from ranking.models import Snapshot, Standing
from ranking.rank_correlation import RankCorrelation, rank_correlation
from ranking.reasons import ANY, NamedReason, count_reasons
from ranking.scripted_raters import demo_notice
from ranking.specimens import SpecimenQuery, specimens_context
from ranking.stats.claim import Claim, Verdict
from ranking.views.matrix import FIRST_ROWS, matrix_context
from ranking.views.share import share_board
from ranking.wording import possible_ranks

OTHERS = {
    "people": gettext_lazy("By people"),
    "judges": gettext_lazy("By LLM judges"),
    "juries": gettext_lazy("By juries"),
}
MOST_CATEGORIES = 12  # of one arena that are drawn, those with the most votes
MOST_REASONS = 8
LEAST_SHARE = 0.05  # of the votes; a lower bound says nothing
CHEAPER = 0.95  # of the other's price: more is no difference worth a sentence


@dataclass(frozen=True)
class ComparedSide:
    """One of the two candidates; `why`: the reason for having no score, or ''."""

    candidate: Candidate
    standing: Standing | None = None
    value: CostAndSpeed = UNKNOWN_COSTS

    @property
    def pk(self) -> int:
        return self.candidate.pk

    @property
    def why(self) -> str:
        return why_unscored(self.standing)

    @property
    def ranks(self) -> str:
        """The possible ranks; '' if they are not known."""
        return possible_ranks(self.standing, "–") if self.standing else ""


@dataclass(frozen=True)
class CategoryRecord:
    """The votes between the two on one category; `better`: the one that is clearly better."""

    name: str
    record: DirectRecord
    better: Candidate | None

    @property
    def votes(self) -> int:
        return self.record.wins + self.record.ties + self.record.losses

    @property
    def won(self) -> str:
        return _percent(self.record.wins / self.votes)

    @property
    def lost(self) -> str:
        return _percent(self.record.losses / self.votes)

    @property
    def until_lost(self) -> str:
        return _percent(1 - self.record.losses / self.votes)


@dataclass(frozen=True)
class OtherVoters:
    """What other voters say of the two, and how far their leaderboard agrees with this one."""

    raters: str
    title: Any
    record: DirectRecord
    votes: int
    says: str
    agreement: RankCorrelation
    url: str


def _percent(share: float) -> str:
    """For a drawing: never with the reader's decimal comma."""
    return f"{100 * share:.1f}%"


def compare_context(
    board: PublishedBoard,
    pair: ChosenPair,
    page: str = "1",
    number: int | None = None,
    actor: Actor = ANONYMOUS,
) -> dict[str, Any]:
    """The context of `ranking/compare.html`. Raises Http404 for unknown candidates."""
    a_pk, b_pk = (pk and _find_side(board, pk).pk for pk in (pair.a, pair.b))
    a_pk = a_pk or _best_besides(board, b_pk)
    b_pk = b_pk or _best_besides(board, a_pk)
    sides = [_find_side(board, pk) for pk in (a_pk, b_pk) if pk is not None]
    parameters = {"a": str(pair.a or ""), "b": str(pair.b or "")}
    context = {
        "arena": board.arena,
        "board": board,
        "snapshot": board.snapshot,
        "stays_at": board.address("compare", **parameters),
        "is_chosen": pair.a is not None or pair.b is not None,
        "sides": sides,
        "same": len(sides) == 2 and a_pk == b_pk,
        "page_links": board.page_links("compare"),
        "raters_links": board.raters_links("compare", **parameters),
        "category_links": board.category_links("compare", **parameters),
        "matrix_url": board.address("compare", **parameters) + "#matrix",
        "share": share_board(board, "compare", **parameters),
        "demo": demo_notice(board.arena, board.snapshot),
    }
    if len(sides) < 2 or a_pk == b_pk or board.snapshot is None:
        return context
    costs = read_costs(board.arena, board.query.category, [side.candidate for side in sides])
    a, b = (replace(side, value=costs.get(side.pk, UNKNOWN_COSTS)) for side in sides)
    votes = _list_votes(board, a, b, page, actor)
    specimens = specimens_context(
        board.arena,
        [row for row in board.standings if row.rank is not None],
        a.pk,
        b.pk,
        number,
        lambda **chosen: board.address("compare", **chosen),
        tiers=Findings.of(board.snapshot).tiers,
        chosen="",
    )
    pair_context = _pair_context(board, board.snapshot, a, b)
    is_under_review = Findings.of(board.snapshot).is_under_review
    says = "" if is_under_review else pair_context["verdict"]
    share = share_board(board, "compare", says=says, a=str(a.pk), b=str(b.pk))
    more = {"sides": [a, b], "share": share, "says": says, "is_under_review": is_under_review}
    return context | more | pair_context | votes | specimens


def _find_side(board: PublishedBoard, pk: int) -> ComparedSide:
    """A candidate of the arena, with an extra query if it is not on the board; an alias stands for
    the one that it was merged into."""
    standing = next((row for row in board.standings if row.candidate_id == pk), None)
    if standing:
        return ComparedSide(standing.candidate, standing)
    revealed = Candidate.objects.revealed().filter(arena=board.arena)
    off_board = revealed.filter(pk=pk).first()
    if off_board is None:
        raise Http404("There is no such candidate.")
    if off_board.merged_into_id is not None:
        return _find_side(board, off_board.merged_into_id)
    return ComparedSide(off_board)


def _best_besides(board: PublishedBoard, other: int | None) -> int | None:
    """The best candidate that is not the `other`, an archived one only if there is no more."""
    rows = sorted(board.standings, key=lambda row: row.candidate.retired_at is not None)
    return next((row.candidate_id for row in rows if row.candidate_id != other), None)


def _pair_context(
    board: PublishedBoard, snapshot: Snapshot, a: ComparedSide, b: ComparedSide
) -> dict[str, Any]:
    raters, category = board.query.raters, board.query.category
    others = [
        found
        for found in board.snapshots
        if found.board.category == category
        and found.board.raters in OTHERS.keys() - {board.voters}
        and found.n_votes
    ]
    own = [found for found in board.snapshots if found.board.raters == raters]
    boards = load_difference_boards(board.arena, [*own, *others], (a.pk, b.pk))
    difference = boards[snapshot.pk].difference(a.pk, b.pk)
    claim, names = difference.claim, (str(a.candidate), str(b.candidate))
    wins, interval = share_words(claim)
    return {
        "title": f"{a.candidate} vs. {b.candidate}",
        "a": a,
        "b": b,
        "difference": difference,
        "record": boards[snapshot.pk].record(a.pk, b.pk),
        "claim": claim,
        "verdict": verdict_sentence(claim, *names, raters=raters),
        "what_else": what_else(claim, raters),
        "wins": wins,
        "interval": interval,
        "parts": parts_sentence(claim),
        "drawn": _draw(claim),
        "least": _least(claim, a, b),
        "style": _style_from(difference.style, a, b),
        "style_url": board.address("board", control="style"),
        "others": _other_voters(board, [boards[found.pk] for found in others], a, b),
        **_where(list(boards.values()), boards[snapshot.pk], a, b),
        "reasons": []
        if board.voters in ("judges", "juries")
        else _why(count_reasons(board.arena), category, a, b),
    }


def _draw(claim: Claim) -> dict[str, str]:
    """Where the interval and the win rate are drawn, the left candidate's wins on the left."""
    if claim.win_rate is None or claim.low is None or claim.high is None:
        return {}
    return {
        "from": _percent(1 - claim.high),
        "width": _percent(claim.high - claim.low),
        "at": _percent(1 - claim.win_rate),
    }


def _least(claim: Claim, a: ComparedSide, b: ComparedSide) -> dict[str, Any]:
    """What can be said of two that are not decided: how often each wins at least, and which costs
    less."""
    if claim.is_decided or claim.low is None or claim.high is None:
        return {}
    if min(claim.low, 1 - claim.high) < LEAST_SHARE:
        return {}
    least = {a.pk: f"{100 * claim.low:.0f}%", b.pk: f"{100 * (1 - claim.high):.0f}%"}
    found: dict[str, Any] = {"a": least[a.pk], "b": least[b.pk]}
    if a.value.price and b.value.price:
        cheaper, other = sorted((a, b), key=lambda side: side.value.price or 0)
        ratio = (cheaper.value.price or 0) / (other.value.price or 1)
        if ratio < CHEAPER:
            found |= {
                "cheaper": cheaper.candidate,
                "ratio": f"{100 * ratio:.0f}%" if ratio >= 0.01 else "<1%",
                "wins": least[cheaper.pk],
            }
    return found


def _style_from(
    style: StyleDifference | None, a: ComparedSide, b: ComparedSide
) -> dict[str, Any] | None:
    """The style-controlled difference, seen from the one that is ahead."""
    if style is None:
        return None
    ahead, low, high = a, style.low, style.high
    if style.elo < 0:
        ahead = b
        low, high = (None, None) if low is None or high is None else (-high, -low)
    return {
        "ahead": ahead.candidate,
        "elo": abs(style.elo),
        "low": low,
        "high": high,
        "is_ahead": low is not None and low > 0,
    }


def _where(
    boards: Sequence[DifferenceBoard], chosen: DifferenceBoard, a: ComparedSide, b: ComparedSide
) -> dict[str, Any]:
    """The votes between the two by category, or all of them where prompts have none."""
    found = []
    for board in boards:
        if board.raters != chosen.raters or not board.votes_between(a.pk, b.pk):
            continue
        verdict = Verdict.OPEN
        if board.is_decided(a.pk, b.pk):
            verdict = board.claim(a.pk, b.pk).verdict
        better = {Verdict.BETTER: a.candidate, Verdict.WORSE: b.candidate}.get(verdict)
        row = CategoryRecord(board.category, board.record(a.pk, b.pk), better)
        if row.votes:
            found.append(row)
    in_categories = [row for row in found if row.name]
    in_categories.sort(key=lambda row: -row.votes)
    shown = sorted(in_categories[:MOST_CATEGORIES], key=lambda row: row.name.casefold())
    clear: dict[Candidate, list[str]] = {}
    for row in shown:
        if row.better:
            clear.setdefault(row.better, []).append(row.name)
    return {
        "where": shown or found,
        "n_categories": len(in_categories),
        "clear": [(who, join_names(names)) for who, names in clear.items()],
    }


def _why(
    reasons: Sequence[NamedReason], category: str, a: ComparedSide, b: ComparedSide
) -> list[dict[str, Any]]:
    """The reasons that stand out for either of the two: strengths first, each with both shares."""
    of_two = {
        (row.candidate, row.tag, row.is_strength): row
        for row in reasons
        if row.candidate in (a.pk, b.pk) and row.category == (category or ANY)
    }
    # The most striking come first; a reason of both counts once.
    striking = dict.fromkeys(
        (tag, is_strength) for (_, tag, is_strength), row in of_two.items() if row.stands_out
    )
    chosen = sorted(list(striking)[:MOST_REASONS], key=lambda reason: not reason[1])

    def percent(side: ComparedSide, reason: tuple[str, bool]) -> int:
        row = of_two.get((side.pk, *reason))
        return row.percent if row else 0

    return [
        {
            "tag": reason[0],
            "is_strength": reason[1],
            "shares": [percent(side, reason) for side in (a, b)],
        }
        for reason in chosen
    ]


def _other_voters(
    board: PublishedBoard, boards: Sequence[DifferenceBoard], a: ComparedSide, b: ComparedSide
) -> list[OtherVoters]:
    snapshots = [found.snapshot.pk for found in boards]
    scores: dict[int, dict[int, float]] = {pk: {} for pk in snapshots}
    rows = Standing.objects.filter(snapshot__in=snapshots).exclude(score=None) if boards else ()
    for row in rows:
        scores[row.snapshot_id][row.candidate_id] = row.score or 0.0
    own: Mapping[int, float] = {
        row.candidate_id: row.score for row in board.standings if row.score is not None
    }
    names = (str(a.candidate), str(b.candidate))
    found = []
    for other in boards:
        claim = other.claim(a.pk, b.pk)
        verdict = verdict_sentence(claim, *names, raters=other.raters)
        found.append(
            OtherVoters(
                raters=other.raters,
                title=OTHERS[other.raters],
                record=other.record(a.pk, b.pk),
                votes=other.votes_between(a.pk, b.pk),
                says=f"{verdict} {what_else(claim, other.raters)}".rstrip(),
                agreement=rank_correlation(own, scores[other.snapshot.pk]),
                url=board.address("compare", a=str(a.pk), b=str(b.pk), raters=other.raters),
            )
        )
    return found


def _list_votes(
    board: PublishedBoard, a: ComparedSide, b: ComparedSide, page: str, actor: Actor
) -> dict[str, Any]:
    """A page of the votes between the two that `actor` can read, seen from the first."""
    filters = VoteFilters(board.voters, "", b.pk, board.query.category)
    votes = candidate_votes.list_votes(a.candidate, filters, page, actor)
    address = board.address("compare", a=str(a.pk), b=str(b.pk))

    def page_url(number: int) -> str:
        return f"{address}&page={number}#comparisons"

    return {
        "page": votes,
        "newer_url": page_url(votes.number - 1) if votes.has_previous() else "",
        "older_url": page_url(votes.number + 1) if votes.has_next() else "",
    }


@translated
@require_safe
def compare(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Two candidates of a leaderboard, and the table of all pairs until two are chosen."""
    query = replace(BoardQuery.unsorted(request.GET), style=False)
    pair, page = ChosenPair.of(request.GET), request.GET.get("page", "1")
    show_all = request.GET.get("rows") == "all"
    number = SpecimenQuery.of(request.GET).number
    key = _key_of(query, pair, page, show_all) if number is None else ""
    stored = http_cache.find(slug=slug, key=key) if key else None
    if stored is not None:
        return send(request, stored, HTML)
    actor = actor_of(request)
    arena = find_arena(slug, actor)
    board = read_published(arena, query)
    # A stored page is for everybody; that of a private arena is made for its reader.
    reader = actor if arena.is_private else ANONYMOUS
    context = compare_context(board, pair, page, number, reader)
    if not context["is_chosen"]:
        context |= matrix_context(board, show_all)
    made = http_cache.pack(render_to_string("ranking/compare.html", context))
    first = {row.candidate_id for row in board.standings[:FIRST_ROWS]}
    if key and not arena.is_private and {pair.a, pair.b} - {None} <= first:
        http_cache.store(arena=arena, epoch=arena.page_epoch, key=key, page=made)
    return send(request, made, HTML, private=arena.is_private)


def _key_of(query: BoardQuery, pair: ChosenPair, page: str, show_all: bool) -> str:
    """The key of a stored page; '' for the many that are not stored.

    Pairs are stored for the leaderboard that opens first only, and among its first candidates.
    """
    if page != "1":
        return ""
    if pair.a is None and pair.b is None:
        return in_language(query.key("compare-all" if show_all else "compare"), HTML)
    is_plain = not query.raters and not query.category and not show_all
    if not (is_plain and pair.a and pair.b):
        return ""
    return in_language(query.key(f"compare-{pair.a}-{pair.b}"), HTML)
