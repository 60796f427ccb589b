"""Boards as pages and files, the pages about the same votes, and what raters see after theirs."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from arena.actors import TeamPermission, actor_of
from arena.language import translated
from arena.models import Arena, Candidate, Rater, Reason, Vote
from arena.models.arenas import FAULTS, STRENGTHS
from arena.outcomes import LEFT, RIGHT
from arena.permissions import visible_arenas
from arena.templatetags.arena_tags import dollars, seconds
from arena.views.voting import HtmxRequest, can_go_on, find_anonymous, find_rater
from ranking import http_cache, results, wording
from ranking.board_data import (
    CONTROLLED,
    BoardQuery,
    BoardStanding,
    BoardView,
    Findings,
    choice_links,
    demo_notice,
    find_arena,
    page_links,
    read_board,
    read_snapshots,
    sort_rows,
)
from ranking.comparison import (
    ChosenPair,
    load_difference_boards,
    read_published,
    standings_with_candidates,
)
from ranking.costs import CostAndSpeed
from ranking.exports import DECIDED_BY
from ranking.http_cache import CSV, HTML, JSON, allow_plotly, send, send_stored, send_template
from ranking.models import Counted, Raters, Snapshot, Standing
from ranking.raters import summarise
from ranking.record import (
    CANDIDATE_COLUMNS,
    PER_PAGE,
    SNAPSHOT_COLUMNS,
    count_agreement,
    list_entrants,
)
from ranking.stats.differences import MOST_VOTES, Lead
from ranking.templatetags.ranking_tags import elo, figures, interval
from ranking.views.candidates import history_context, parse_candidates
from ranking.views.charts import ScatterPoint, frontier, scatter_chart
from ranking.views.compare import (
    clean_order,
    clean_show,
    compare_context,
    matrix_context,
    side_by_side_context,
)
from ranking.views.standings import TableQuery, control_style, table_context


def board_context(
    view: BoardView, table: TableQuery, own_teams: Set[int] = frozenset()
) -> dict[str, Any]:
    """The context of `ranking/board.html`."""
    query, snapshot = view.query, view.snapshot
    settings = snapshot.settings if snapshot else {}
    findings = Findings.of(snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    collecting = wording.collecting(snapshot, names)
    is_unvoted = snapshot is not None and not snapshot.n_votes + snapshot.n_both_bad
    unvoted = view.rows if is_unvoted and len(view.rows) > 1 else []
    lead = wording.lead(view.ranked, findings, settings.get("these_raters", 0))
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": snapshot,
        "all_people_url": view.address(raters=Counted.PEOPLE.value),
        "raters_links": view.raters_links(**table.parameters(q="", rows="")),
        "category_links": view.category_links(**table.parameters(q="", rows="")),
        "page_links": view.page_links("board"),
        "csv_url": view.address("board_csv", control=""),
        "json_url": view.address("board_json", control=""),
        "compare_url": view.address("compare", control=""),
        "methodology_url": view.address("methodology", sort="rank"),
        "cluster_sentence": wording.cluster_sentence(settings, query.raters),
        "both_bad_sentence": wording.BOTH_BAD_SENTENCES.get(settings.get("both_bad", ""), ""),
        "left_out": wording.left_out(settings),
        "named": wording.named(settings, names),
        "these_raters": settings.get("these_raters"),
        "capped": wording.capped(settings),
        "demo": demo_notice(view.arena, snapshot),
        "freshness": wording.freshness(snapshot),
        "groups": [] if unvoted else wording.groups(view.unranked),
        "rankings": [] if unvoted else wording.rankings(findings, view.unranked),
        "lead": lead,
        "collecting": collecting,
        "description": wording.description(view.arena.question, snapshot, collecting or lead),
        "waiting": sort_rows(unvoted or view.ranked, "name") if collecting else [],
        **table_context(view, table, lead.candidate if lead and lead.clear else None, own_teams),
        **_findings_context(view, findings, names),
    }


def _findings_context(view: BoardView, findings: Findings, names: dict[int, str]) -> dict[str, Any]:
    return {
        "has_open": any(row.standing.score is None for row in view.ranked),
        "has_elo": view.has_elo,
        "has_neighbours": bool(findings.neighbours),
        "robustness": wording.robustness(findings, names),
        "combined": wording.combined(findings),
        "combined_changed": wording.changed(findings, names),
        "combined_counted": wording.counted(findings),
        "agreement": wording.agreement(findings, view.query.raters),
        "transitivity": wording.transitivity(findings),
        "traits": wording.traits(findings),
        "style_votes": findings.style.get("n_votes"),
    }


# -- A board as a page, as CSV and as JSON --------------------------------------------------------


@require_safe
@allow_plotly
def board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The leaderboard; with a search, filters or chosen columns it is rendered each time."""
    query, table = BoardQuery.of(request.GET), TableQuery.of(request.GET)
    own_teams: Set[int] = frozenset()

    def make(arena: Any) -> str:
        context = board_context(read_board(arena, query), table, own_teams)
        return render_to_string("ranking/board.html", context)

    if table.is_stored:
        return send_stored(request, slug, query.key(table.form), HTML, make)
    actor = actor_of(request)
    arena = find_arena(slug, actor)
    if table.own:
        own_teams = frozenset(actor.teams_seen().values_list("pk", flat=True))
    private = arena.is_private or table.own
    return send(request, http_cache.pack(make(arena)), HTML, private=private)


@require_safe
def board_json(request: HttpRequest, slug: str) -> HttpResponseBase:
    return _send_board(request, slug, "json", JSON, results.as_json)


@require_safe
def board_csv(request: HttpRequest, slug: str) -> HttpResponseBase:
    response = _send_board(request, slug, "csv", CSV, results.as_csv)
    response.headers["Content-Disposition"] = f'attachment; filename="{slug}-results.csv"'
    return response


def _send_board(
    request: HttpRequest,
    slug: str,
    form: str,
    content_type: str,
    make: Callable[[BoardView], str],
) -> HttpResponseBase:
    """Send the requested board as a file."""
    query = replace(BoardQuery.of(request.GET), style=False)
    return send_stored(
        request, slug, query.key(form), content_type, lambda arena: make(read_board(arena, query))
    )


# -- The pages beside a board ----------------------------------------------------------------------


@require_safe
def entries(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Who entered which candidates, and how often each is shown."""
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        view = read_board(
            arena, query, columns=SNAPSHOT_COLUMNS, candidate_columns=CANDIDATE_COLUMNS
        )
        context = {
            "arena": arena,
            "page_links": view.page_links("entries"),
            "entrants": list_entrants(view.candidates, view.snapshots),
        }
        return render_to_string("ranking/entries.html", context)

    return send_stored(request, slug, query.key("entries"), HTML, make)


@require_safe
def exports(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The files that can be downloaded; those with judges' replies are the team's."""
    actor = actor_of(request)
    arena = find_arena(slug, actor)
    of_team = actor.may(TeamPermission.READ, arena.team_id)
    context = {"arena": arena, "of_team": of_team, "deciders": list(DECIDED_BY)}
    private = arena.is_private or of_team
    return send_template(request, "ranking/exports.html", context, private=private)


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


@require_safe
def price(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Scores against price or speed."""
    query, by = (
        replace(BoardQuery.of(request.GET), sort="rank"),
        clean_by(request.GET.get("by", "")),
    )

    def make(arena: Any) -> str:
        return render_to_string("ranking/price.html", price_context(read_board(arena, query), by))

    return send_stored(request, slug, query.key(f"price-{by}"), HTML, make)


@require_safe
def history(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The score history; only the page without a choice of candidates is stored."""
    query = BoardQuery.unsorted(request.GET)
    candidates = parse_candidates(request.GET.getlist("candidate"))

    def make(arena: Any) -> str:
        context = history_context(read_published(arena, query), candidates)
        return render_to_string("ranking/history.html", context)

    if candidates:
        arena = find_arena(slug, actor_of(request))
        return send(request, http_cache.pack(make(arena)), HTML, private=arena.is_private)
    return send_stored(request, slug, query.key("history"), HTML, make)


# -- Price and speed -------------------------------------------------------------------------------

BY = {"price": "Price", "seconds": "Speed"}
AXES = {"price": "$ per 1,000 answers", "seconds": "Seconds per answer"}


@dataclass(frozen=True)
class PricedRow:
    """A line of the table below the chart: a candidate, and whether it is on the frontier."""

    row: BoardStanding
    url: str
    is_best: bool
    amount: str
    answers: int
    wins: str


def clean_by(by: str) -> str:
    return by if by in BY else "price"


def price_context(view: BoardView, by: str) -> dict[str, Any]:
    """The context of `ranking/price.html`; `by` is one of BY, and falls back to what is known."""
    view = control_style(view)
    known = [name for name in BY if any(_amount(row.value, name) is not None for row in view.rows)]
    by = by if by in known or not known else known[0]
    points = {
        row.standing.candidate_id: _point(view, row, by)
        for row in view.ranked
        if row.standing.score is not None and _amount(row.value, by) is not None
    }
    best = frontier(list(points.values()))
    without = [row.name for row in view.rows if row.standing.candidate_id not in points]
    kept = {"by": "" if by == "price" else by}
    return {
        "arena": view.arena,
        "view": view,
        "snapshot": view.snapshot,
        "collecting": wording.collecting(view.snapshot, {}),
        "by": by,
        "axis": AXES[by],
        "chart": scatter_chart(list(points.values())),
        "lines": _priced_rows(view, points, best, by),
        "without": without,
        "page_links": view.page_links("price"),
        "raters_links": view.raters_links("price", **kept, sort="rank"),
        "category_links": view.category_links("price", **kept, sort="rank"),
        "by_links": choice_links(
            [(name, BY[name]) for name in known],
            by,
            lambda name: view.address("price", by="" if name == "price" else name),
        ),
        "style_links": choice_links(
            [("", "As voted"), (CONTROLLED, "Controlled for style")] if view.has_style else [],
            CONTROLLED if view.query.style else "",
            lambda control: view.address("price", **kept, control=control),
        ),
    }


def _amount(value: CostAndSpeed, by: str) -> float | None:
    return value.dollars if by == "price" else value.seconds


def _in_words(value: CostAndSpeed, by: str) -> str:
    if by == "price":
        return dollars(value.price)
    return f"{seconds(value.seconds)}"


def _point(view: BoardView, row: BoardStanding, by: str) -> ScatterPoint:
    standing, amount = row.standing, _amount(row.value, by)
    assert standing.score is not None
    assert amount is not None
    ends = "" if standing.low is None else f", 95 % interval {interval(standing)}"
    return ScatterPoint(
        name=row.name,
        url=reverse("candidate", args=[view.arena.slug, standing.candidate_id]),
        value=amount,
        score=standing.score,
        low=standing.low,
        high=standing.high,
        says=f"{row.name}: {elo(standing.score)}{ends}; {_in_words(row.value, by)}",
    )


def _priced_rows(
    view: BoardView, points: Mapping[int, ScatterPoint], best: set[str], by: str
) -> list[PricedRow]:
    """The candidates of the chart, the cheapest or fastest first."""
    rows = [row for row in view.ranked if row.standing.candidate_id in points]
    lines = [
        PricedRow(
            row,
            points[row.standing.candidate_id].url,
            points[row.standing.candidate_id].url in best,
            _in_words(row.value, by),
            row.value.n_priced if by == "price" else row.value.n_timed,
            figures(row.value.wins_per_dollar if by == "price" else row.value.wins_per_second),
        )
        for row in rows
    ]
    return sorted(lines, key=lambda line: points[line.row.standing.candidate_id].value)


# -- Categories ------------------------------------------------------------------------------------

SHADES = 5  # from the first rank to the last


@dataclass(frozen=True)
class CategoryColumn:
    """The leaderboard of a category ("" for all prompts), with its standings by candidate."""

    label: str
    url: str
    snapshot: Snapshot
    standings: dict[int, Standing]

    @property
    def n_ranked(self) -> int:
        return sum(standing.rank is not None for standing in self.standings.values())


@dataclass(frozen=True)
class CategoryCell:
    """A candidate's place in a category; without one, `says` why. `shade`: from 1, the top."""

    standing: Standing | None
    shade: int = 0
    says: str = ""


@dataclass(frozen=True)
class CategoryRow:
    candidate: Candidate
    cells: list[CategoryCell]


def categories_context(arena: Any, query: BoardQuery) -> dict[str, Any]:
    """The context of `ranking/categories.html`."""
    query = BoardQuery(query.raters)
    snapshots, chosen = read_snapshots(arena, query)
    raters = chosen.board.raters if chosen else ""
    columns = _read_columns(arena, raters, snapshots)
    voted = {s.board.raters for s in snapshots if s.board.category and s.n_votes}
    return {
        "arena": arena,
        "columns": columns,
        "rows": _category_rows(columns),
        "page_links": page_links(arena.slug, BoardQuery(raters), snapshots, "categories"),
        "raters_links": choice_links(
            [(value, label) for value, label in Counted.choices if value in voted],
            raters,
            lambda value: BoardQuery(value).address(arena.slug, "categories"),
        ),
    }


def _read_columns(arena: Any, raters: str, snapshots: list[Snapshot]) -> list[CategoryColumn]:
    """One query: the leaderboards of these raters, that of all prompts first."""
    of_raters = [s for s in snapshots if s.board.raters == raters and s.n_votes]
    standings: dict[int, dict[int, Standing]] = {s.pk: {} for s in of_raters}
    for standing in standings_with_candidates(of_raters):
        standings[standing.snapshot_id][standing.candidate_id] = standing
    return [
        CategoryColumn(
            snapshot.board.category or "All prompts",
            BoardQuery(raters, snapshot.board.category).address(arena.slug),
            snapshot,
            standings[snapshot.pk],
        )
        for snapshot in sorted(of_raters, key=lambda s: s.board.category.casefold())
    ]


def _category_rows(columns: Sequence[CategoryColumn]) -> list[CategoryRow]:
    """The candidates in the order of the first leaderboard; those it does not rank come last."""
    candidates: dict[int, Candidate] = {}
    for column in columns:
        candidates |= {pk: row.candidate for pk, row in column.standings.items()}

    def place(pk: int) -> tuple[float, str]:
        standing = columns[0].standings.get(pk)
        rank = standing.rank if standing else None
        return rank or float("inf"), str(candidates[pk]).casefold()

    return [
        CategoryRow(candidates[pk], [_cell(column, pk) for column in columns])
        for pk in sorted(candidates, key=place)
    ]


def _cell(column: CategoryColumn, pk: int) -> CategoryCell:
    standing = column.standings.get(pk)
    if standing is None or not standing.votes:
        return CategoryCell(None, says="no votes")
    if column.snapshot.lacks_votes:
        few_prompts = column.snapshot.settings["evidence"]["few_prompts"]
        return CategoryCell(None, says="few prompts" if few_prompts else "few votes")
    if standing.rank is None:
        return CategoryCell(None, says="not comparable")
    share = (standing.rank - 1) / max(column.n_ranked - 1, 1)
    return CategoryCell(standing, 1 + min(int(share * SHADES), SHADES - 1))


@require_safe
def categories(request: HttpRequest, slug: str) -> HttpResponseBase:
    query = BoardQuery(BoardQuery.unsorted(request.GET).raters)

    def make(arena: Any) -> str:
        context = categories_context(arena, query)
        return render_to_string("ranking/categories.html", context)

    return send_stored(request, slug, query.key("categories"), HTML, make)


LAST = 10


@translated
@never_cache
@require_safe
def vote_facts(request: HttpRequest, slug: str, key: UUID) -> HttpResponse:
    """Show a rater who agreed with their vote, and its effect on these two candidates.

    It is a separate request, so that the vote itself is fast.
    """
    arena = get_object_or_404(visible_arenas(actor_of(request)), slug=slug)
    rater = find_rater(request)
    votes = Vote.objects.filter(arena=arena, rater=rater, voided_at=None, comparison__key=key)
    votes = votes.select_related("comparison__left", "comparison__right", "comparison__run")
    vote = votes.first() if rater else None
    if vote is None:
        raise Http404("You have not voted on this pair.")
    comparison = vote.comparison
    given = {(reason.side, reason.tag): reason.comment for reason in vote.reasons.all()}
    names: tuple[Any, Any] = (gettext("Answer A"), gettext("Answer B"))
    facts: dict[str, Any] = {}
    if not comparison.hides_names:
        names = (comparison.left, comparison.right)
        facts = _between(arena, *names) | {"agreement": count_agreement(vote)}
    context = {
        "arena": arena,
        "comparison": comparison,
        "sides": [
            (side, candidate, [(tag, _translate_tag(tag), (side, tag) in given) for tag in tags])
            for side, candidate in zip((LEFT, RIGHT), names, strict=True)
            if (tags := arena.reasons_for(side, vote.outcome))
        ],
        "comment": given.get((Reason.BOTH, ""), ""),
        **facts,
    }
    return render(request, "ranking/_vote_facts.html", context)


def _translate_tag(tag: str) -> str:
    """A reason in the rater's language, if it is one of those that every new arena offers."""
    return gettext(tag) if tag in (*STRENGTHS, *FAULTS) else tag


def _between(arena: Arena, left: Candidate, right: Candidate) -> dict[str, Any]:
    """The result of human votes on two candidates: the better one if that is settled, or how many
    more votes it takes."""
    snapshot = (
        Snapshot.objects.current()
        .of_arena(arena)
        .filter(board__raters=Raters.PEOPLE, board__category="")
    )
    for board in load_difference_boards(snapshot).values():
        difference = board.difference(left.pk, right.pk)
        if difference.is_decided:
            return {"better": left if difference.lead == Lead.AHEAD else right}
        if difference.votes_to_go and difference.votes_to_go < MOST_VOTES:
            return {"votes_to_go": difference.votes_to_go}
    return {}


@translated
@never_cache
@require_safe
def my_votes(request: HtmxRequest, slug: str) -> HttpResponse:
    """The reader's own votes in an arena, newest first; htmx gets only the last ten."""
    arena = get_object_or_404(visible_arenas(actor_of(request)), slug=slug)
    rater = find_rater(request)
    votes = _votes_of(rater, arena)
    if request.htmx:
        part = {"arena": arena, "votes": votes[:LAST]}
        return render(request, "ranking/_my_votes.html", part)
    page = Paginator(votes, PER_PAGE).get_page(request.GET.get("page", "1"))
    context: dict[str, Any] = {"arena": arena, "page": page, "votes": page.object_list}
    if rater is not None and page.paginator.count:
        context["summary"] = summarise(arena, rater)
    unsigned = Vote.objects.revealed().filter(rater__in=find_anonymous(request, rater))
    context["unsigned"] = unsigned.filter(arena=arena).count()
    context["can_vote"] = can_go_on(request, arena, rater)
    return render(request, "ranking/my_votes.html", context)


def _votes_of(rater: Rater | None, arena: Arena) -> QuerySet[Vote]:
    if rater is None:
        return Vote.objects.none()
    votes = Vote.objects.revealed().filter(arena=arena, rater=rater).order_by("-pk")
    return votes.select_related(
        "comparison__prompt", "comparison__left", "comparison__right", "comparison__run"
    )
