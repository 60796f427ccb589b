"""Pages about the site: the home page, the methodology (how each number of a board is computed,
with its current settings), sitemap, health for operators, and metrics.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from http import HTTPStatus
from math import tanh
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, Max, Q
from django.db.models.functions import TruncDate
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.defaults import server_error
from prometheus_client.exposition import choose_encoder

from arena.actors import ANONYMOUS, Actor, actor_of
from arena.calls.providers.base import EndpointStoppedError
from arena.calls.servers import known_models, probe_endpoint
from arena.endpoints import UnknownEndpointError
from arena.language import translated
from arena.middleware import RETRY_AFTER
from arena.models import Candidate, Team
from arena.permissions import listed_arenas
from arena.services.candidates import with_ballots
from ranking import http_cache, wording
from ranking.board_data import (
    DEMO_NOTICE,
    BoardQuery,
    BoardView,
    Findings,
    arenas_with_scripts,
    read_board,
)
from ranking.health import check_health, registry, setup_steps
from ranking.http_cache import HTML, send, send_stored, send_template
from ranking.models import Counted, HomePage, Raters, Snapshot, Standing

MOST_PLACES = 3
MOST_NEWS = 5


@dataclass(frozen=True)
class Card:
    """An arena with the snapshots of its boards, and the `top` of the first board with enough
    votes; `demo` is a notice if those votes come from a script."""

    arena: Any
    people: Snapshot | None
    judges: Snapshot | None
    juries: Snapshot | None
    top: Sequence[Standing] = ()
    demo: str = ""

    @property
    def shown(self) -> Snapshot | None:
        """The snapshot of the top: the first one with enough votes, or else with any."""
        voted = [s for s in (self.people, self.judges, self.juries) if s and s.n_votes]
        return min(voted, key=lambda snapshot: snapshot.lacks_votes, default=None)

    @property
    def collecting(self) -> wording.Collecting | None:
        return wording.collecting(self.shown, {})

    @property
    def has_leader(self) -> bool:
        """Whether the first is the clear leader."""
        leader = Findings.of(self.shown).leader
        return bool(self.top) and self.top[0].candidate_id == leader


@dataclass(frozen=True)
class News:
    """Candidates that were entered on one day."""

    arena: Any
    day: date
    n: int
    name: str


def list_cards(actor: Actor = ANONYMOUS) -> list[Card]:
    """One card per arena that is listed for `actor`, newest first, but those without votes that
    nobody can vote in yet last; five queries at most.
    """
    arenas = list(with_ballots(listed_arenas(actor)).order_by("-pk"))
    ids = [arena.pk for arena in arenas]
    current = Snapshot.objects.current().filter(board__category="", board__arena__in=ids)
    snapshots = {
        (snapshot.board.arena_id, snapshot.board.raters): snapshot
        for snapshot in current.select_related("board")
    }
    tops = _find_tops(ids)
    cards = []
    for arena in arenas:
        people, judges, juries = (snapshots.get((arena.pk, raters)) for raters in Raters.values)
        card = Card(arena, people, judges, juries)
        has_ranking = card.shown and not card.shown.lacks_votes
        top = tops.get(card.shown.pk, []) if card.shown and has_ranking else []
        cards.append(replace(card, top=top))
    cards.sort(key=lambda card: not (card.shown or card.arena.has_texts))
    scripted = arenas_with_scripts(card.shown for card in cards if card.shown)
    return [
        replace(card, demo=str(DEMO_NOTICE))
        if card.arena.is_sample or card.arena.pk in scripted
        else card
        for card in cards
    ]


def _find_tops(arenas: Sequence[int]) -> dict[int, list[Standing]]:
    """The first three standings by snapshot; ties are broken by displayed name."""
    current = Q(snapshot__is_current=True, snapshot__board__category="")
    first = Standing.objects.filter(
        current, rank__lte=MOST_PLACES, snapshot__board__arena__in=arenas
    )
    tops: dict[int, list[Standing]] = {}
    rows = first.select_related("candidate")
    for row in sorted(rows, key=lambda row: (row.rank or 0, str(row.candidate).casefold())):
        top = tops.setdefault(row.snapshot_id, [])
        if len(top) < MOST_PLACES:
            top.append(row)
    return tops


def list_news(arenas: Sequence[Any]) -> list[News]:
    """The newest candidates of the arenas, by arena and day; one query. Undisclosed ones count, but
    are not named."""
    by_id = {arena.pk: arena for arena in arenas}
    entered = Candidate.objects.revealed().filter(arena__in=by_id, retired_at=None).order_by()
    rows = (
        entered.values("arena", day=TruncDate("created_at"))
        .annotate(
            n=Count("pk"),
            disclosed=Count("pk", filter=Q(disclosed_at__isnull=False)),
            name=Max("name", filter=Q(disclosed_at__isnull=False)),
        )
        .order_by("-day", "-arena")[:MOST_NEWS]
    )
    return [
        News(
            by_id[row["arena"]],
            row["day"],
            row["n"],
            row["name"] if row["n"] == row["disclosed"] == 1 else "",
        )
        for row in rows
    ]


def home_context(actor: Actor) -> dict[str, Any]:
    """The context of `ranking/index.html`."""
    cards = list_cards(actor)
    open_cards = [card for card in cards if card.arena.has_texts]
    return {
        "cards": cards,
        "can_sign_up": settings.SIGN_UP == "open",
        # Where the next vote helps most: the open arena with the fewest votes.
        "try_one": min(
            open_cards,
            key=lambda card: (card.arena.is_sample, card.people.n_votes if card.people else 0),
            default=None,
        ),
        "news": list_news([card.arena for card in cards]),
    }


@translated
@require_safe
def index(request: HttpRequest) -> HttpResponseBase:
    """The home page; without sign-in it is stored, once per language, until any arena changes."""
    actor, language = actor_of(request), get_language() or settings.LANGUAGE_CODE
    if actor.key:
        return send_template(request, "ranking/index.html", home_context(actor), private=True)
    page = http_cache.find_home(language)
    if page is None:
        state = HomePage.objects.state()
        page = http_cache.pack(render_to_string("ranking/index.html", home_context(actor)))
        http_cache.store_home(language=language, state=state, page=page)
    return send(request, page, HTML)


BEARER = "Bearer "
TEAMS_LISTED = 200
INDEXED = (
    "board",
    "categories",
    "price",
    "compare",
    "history",
    "side_by_side",
    "entries",
    "methodology",
)
MOST_ADDRESSES = 50_000  # of a sitemap: https://www.sitemaps.org/protocol.html


def require_operator(request: HttpRequest) -> None:
    """Raise PermissionDenied unless the bearer token is METRICS_TOKEN, or staff is signed in."""
    given = request.headers.get("Authorization", "")
    if given.startswith(BEARER):
        token = settings.METRICS_TOKEN
        is_allowed = bool(token) and constant_time_compare(given.removeprefix(BEARER), token)
    else:
        is_allowed = request.user.is_active and request.user.is_staff
    if not is_allowed:
        raise PermissionDenied


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer that this process is alive, touching nothing; `?full` shows operators the rest."""
    if "full" not in request.GET:
        return JsonResponse({"status": "alive"})
    require_operator(request)
    health = check_health(timezone.now())
    status = HTTPStatus.SERVICE_UNAVAILABLE if health.findings else HTTPStatus.OK
    word = "trouble" if health.findings else "well"
    return JsonResponse({"status": word, **asdict(health)}, status=status)


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 if this process can serve: the database responds and is migrated; else 503.

    Broker and workers do not matter here: pages are served and votes accepted without them.
    """
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except (DatabaseError, InterfaceError):
        return JsonResponse({"status": "the database does not answer"}, status=503)
    if missing:
        return JsonResponse({"status": f"{len(missing)} migrations to apply"}, status=503)
    return JsonResponse({"status": "ready"})


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics, in the format that the scraper prefers."""
    require_operator(request)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry(timezone.now())), content_type=content_type)


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def operators(request: HttpRequest) -> HttpResponse:
    """List what a new Ringside still needs; its button tests one model with a tiny request."""
    require_operator(request)
    now, tested = timezone.now(), None
    if request.method == "POST":
        name, _, model = request.POST.get("model", "").partition(":")
        try:
            probe_endpoint(name, model, now)
        except (UnknownEndpointError, EndpointStoppedError) as error:
            tested = {"works": False, "sentence": f"{name}: {error}"}
        else:
            tested = {"works": True, "sentence": f"{model} at {name} answers."}
    context = {
        "steps": setup_steps(now),
        "models": known_models(),
        "tested": tested,
        "health": check_health(now),
        "teams": Team.objects.order_by("name")[:TEAMS_LISTED],
    }
    return render(request, "ranking/operators.html", context)


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Keep crawlers off the voting pages, where each visit would take a pair from a rater."""
    address = f"{settings.SITE_URL}{reverse('sitemap')}"
    content = f"User-agent: *\nDisallow: /*/vote/\nSitemap: {address}\n"
    return HttpResponse(content, content_type="text/plain")


@require_safe
def sitemap(request: HttpRequest) -> HttpResponse:
    """The home page, and the leaderboards that everybody finds there with their candidates."""
    pages = [reverse("index")]
    arenas = listed_arenas(ANONYMOUS).order_by("pk")
    for slug in arenas.values_list("slug", flat=True):
        pages += [reverse(name, args=[slug]) for name in INDEXED]
    candidates = Candidate.objects.revealed().filter(arena__in=arenas).order_by("pk")
    named = candidates.values_list("arena__slug", "pk")[:MOST_ADDRESSES]
    pages += [reverse("candidate", args=[slug, pk]) for slug, pk in named]
    addresses = [f"{settings.SITE_URL}{page}" for page in pages[:MOST_ADDRESSES]]
    context = {"addresses": addresses}
    content = render_to_string("ranking/sitemap.xml", context)
    return HttpResponse(content, content_type="application/xml")


@translated
def fault(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is busy or unavailable, and 500 for all other errors.

    Django calls this while it handles the exception. The page must not use the database.
    """
    if not isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return server_error(request)
    return HttpResponse(
        render_to_string("503.html"),
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": RETRY_AFTER},
    )


# The headings of the templates by anchor, in page order.
TOPICS = {
    "score": "Score",
    "interval": "Score interval",
    "combined": "People and judges combined",
    "clusters": "Dependent votes",
    "rank": "Rank and its range",
    "number-one": "Clear leader",
    "neighbours": "Lead over next",
    "fragility": "Robustness of number one",
    "style": "Style-controlled score",
    "elo": "Elo",
    "win-rate": "Win rate",
    "both-bad": "Both bad",
    "cost": "Cost and speed",
    "agreement": "Agreement",
    "transitivity": "Transitivity",
    "ties": "Ties",
    "not-comparable": "Not comparable yet",
    "votes": "Which votes count",
    "suspicious": "Suspicious votes",
    "log": "Vote log",
    "second-opinion": "Cross-check",
    "settings": "Current settings",
}
CLUSTERS = {
    "prompt_rater": "the prompt, and by the rater",
    "prompt": "the prompt",
    "prompt_pair": "the prompt and the two candidates",
    "rater": "the rater",
    "vote": "each vote on its own",
}
OTHERS = {
    "prompt_rater": "other raters and other prompts",
    "prompt": "other prompts",
    "prompt_pair": "other prompts",
    "rater": "other raters",
    "vote": "other votes",
}
NOT_COMBINED = {"fragility", "style", "elo", "agreement", "transitivity", "ties"}
PAGE = "methodology"


def methodology_context(view: BoardView) -> dict[str, Any]:
    """The context of `ranking/methodology.html`."""
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": view.snapshot,
        "topics": _topics(view),
        "is_combined": _is_combined(view),
        "has_costs": _has_costs(view),
        "raters_links": view.raters_links(PAGE),
        "category_links": view.category_links(PAGE),
        "page_links": view.page_links(PAGE),
        **_numbers(view),
    }


def _topics(view: BoardView) -> list[tuple[str, str]]:
    """Anchor and title of the topics that apply to the board."""
    left_out = NOT_COMBINED if _is_combined(view) else {"combined"}
    if not _has_costs(view):
        left_out = left_out | {"cost"}
    if view.snapshot is None or not view.snapshot.settings.get("log"):
        left_out = left_out | {"log"}
    return [(anchor, title) for anchor, title in TOPICS.items() if anchor not in left_out]


def _is_combined(view: BoardView) -> bool:
    return view.query.raters == Counted.COMBINED


def _has_costs(view: BoardView) -> bool:
    return view.has_prices or view.has_times


def _numbers(view: BoardView) -> dict[str, Any]:
    """The values that the topics print from the board's snapshot."""
    if view.snapshot is None:
        return {}
    settings, findings = view.snapshot.settings, Findings.of(view.snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    collecting = wording.collecting(view.snapshot, names)
    return {
        "s": settings,
        "collecting": collecting,
        "others": OTHERS[settings["clusters"]],
        "times_in_100": f"{100 * settings['confidence']:g}",
        "confidence": f"{100 * settings['confidence']:g}\N{NO-BREAK SPACE}%",
        "doubt": f"{100 * (1 - settings['confidence']):g}\N{NO-BREAK SPACE}%",
        "clusters": CLUSTERS[settings["clusters"]],
        "cluster_sentence": wording.cluster_sentence(settings, view.query.raters),
        "both_bad_sentence": wording.BOTH_BAD_SENTENCES[settings["both_bad"]],
        "capped": wording.capped(settings),
        "left_out": wording.left_out(settings),
        "lead": wording.lead(view.ranked, findings, settings.get("these_raters", 0)),
        "robustness": "" if collecting else wording.robustness(findings, names),
        "agreement": wording.agreement(findings, view.query.raters),
        "transitivity": wording.transitivity(findings),
        "combined": wording.combined(findings),
        "traits": wording.traits(findings),
        "style_votes": findings.style.get("n_votes"),
        "n_separated": sum(pair.separated for pair in findings.neighbours.values()),
        "n_neighbours": len(findings.neighbours),
        "ties": findings.ties,
        "equals_tie": _equals_tie(findings),
        "freshness": wording.freshness(view.snapshot),
        "n_priced": sum(bool(row.value.n_priced) for row in view.rows),
        "n_timed": sum(bool(row.value.n_timed) for row in view.rows),
    }


def _equals_tie(findings: Findings) -> float | None:
    """Share of ties between equal candidates in the Rao-Kupper model: (e^2h - 1) / (1 + e^h)^2."""
    eta = findings.ties.get("eta")
    return None if eta is None else tanh(eta / 2)


@require_safe
def methodology(request: HttpRequest, slug: str) -> HttpResponseBase:
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        context = methodology_context(read_board(arena, query))
        return render_to_string("ranking/methodology.html", context)

    return send_stored(request, slug, query.key(PAGE), HTML, make)
