"""The home page: the arenas with the tops of their leaderboards, and the newest candidates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Q
from django.db.models.functions import TruncDate
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from arena.actors import ANONYMOUS, Actor, actor_of
from arena.language import translated
from arena.models import Arena, Candidate
from arena.permissions import listed_arenas
from arena.services.candidates import with_ballots
from arena.site import sign_up_rule
from ranking import http_cache, wording
from ranking.board_data import Findings
from ranking.http_cache import HTML, send, send_template
from ranking.models import HomePage, Raters, Snapshot, Standing
from ranking.scripted_raters import DEMO_NOTICE, arenas_with_scripts

MOST_PLACES = 3
MOST_NEWS = 5


@dataclass(frozen=True)
class Card:
    """An arena with the snapshots of its boards, and the `top` of the first board with enough
    votes; `demo` is a notice if those votes come from a script. `can_vote`: whether
    this reader may vote in it, signed in where that is asked."""

    arena: Any
    people: Snapshot | None
    judges: Snapshot | None
    juries: Snapshot | None
    top: Sequence[Standing] = ()
    demo: str = ""
    can_vote: bool = False

    @property
    def shown(self) -> Snapshot | None:
        """The snapshot of the top: the first one with enough votes, or else with any."""
        voted = [s for s in (self.people, self.judges, self.juries) if s and s.n_votes]
        return min(voted, key=lambda snapshot: snapshot.lacks_votes, default=None)

    @property
    def collecting(self) -> wording.Collecting | None:
        return wording.collecting(self.shown)

    @property
    def is_under_review(self) -> bool:
        return Findings.of(self.shown).is_under_review

    @property
    def has_leader(self) -> bool:
        """Whether the first is the clear leader."""
        leader = Findings.of(self.shown).leader
        return bool(self.top) and self.top[0].candidate_id == leader

    @property
    def is_ahead(self) -> bool:
        """Whether the first is ahead at this count of votes."""
        return bool(self.top) and self.top[0].candidate_id == Findings.of(self.shown).ahead


@dataclass(frozen=True)
class News:
    """Candidates that were entered on one day."""

    arena: Any
    day: date
    n: int
    name: str


def list_cards(actor: Actor = ANONYMOUS) -> list[Card]:
    """One card per arena that is listed for `actor`, newest first, but those without votes that
    nobody can vote in yet last; six queries at most.
    """
    arenas = list(with_ballots(listed_arenas(actor)).order_by("-pk"))
    ids = [arena.pk for arena in arenas]
    current = Snapshot.objects.current().filter(board__category="", board__arena__in=ids)
    snapshots = {
        (snapshot.board.arena_id, snapshot.board.raters): snapshot
        for snapshot in current.select_related("board")
    }
    tops, own = _find_tops(ids), set(actor.teams_seen().values_list("pk", flat=True))
    cards = []
    for arena in arenas:
        people, judges, juries = (snapshots.get((arena.pk, raters)) for raters in Raters.values)
        is_for_reader = arena.voters != Arena.Voters.MEMBERS or arena.team_id in own
        card = Card(arena, people, judges, juries, can_vote=arena.has_texts and is_for_reader)
        if card.shown and not card.shown.lacks_votes:
            card = replace(card, top=tops.get(card.shown.pk, []))
        cards.append(card)
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
    open_cards = [card for card in cards if card.can_vote]
    return {
        "cards": cards,
        "sample": next((card.arena for card in cards if card.arena.is_sample), None),
        "can_sign_up": sign_up_rule() == "open",
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
