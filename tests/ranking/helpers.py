"""Builders for the tests of boards: arenas with votes, logs, snapshots, and pages as text."""

import html
import random
import re
from collections.abc import Iterable
from datetime import timedelta
from itertools import combinations
from typing import Any

from django.test import Client
from django.utils import timezone

from arena.models import Arena, Import, Rater, Vote
from arena.services.raters import set_trust
from ranking.log import links
from ranking.models import ArenaRefresh, Snapshot, Standing
from ranking.services import leases, refresh
from tests.factories import make_arena, make_person, make_vote, make_votes

STYLE: dict[str, Any] = {
    "features": [
        {"name": "words", "label": "Length in words", "coefficient": 60.0, "low": 30.0}
        | {"high": 90.0, "deviation": 0.5, "reason": ""},
        {"name": "headings", "label": "Headings", "coefficient": -20.0, "low": -30.0}
        | {"high": -10.0, "deviation": 0.25, "reason": ""},
        {"name": "list_items", "label": "List items", "coefficient": 5.0, "low": -9.0}
        | {"high": 19.0, "deviation": 0.5, "reason": ""},
        {"name": "bold", "label": "Bold words", "coefficient": None, "low": None}
        | {"high": None, "deviation": 0.0, "reason": "It is the same in every vote."},
    ],
    "reason": "",
    "n_votes": 1234,
}
CYCLE = ["left", "right", "tie", "left", "left", "right"]
JUDGED_PROMPTS = 60


def make_voted_arena(
    n_candidates: int = 3, n_prompts: int = 8, *, rounds: int = 1, name: str = "Support answers"
) -> Arena:
    """Every two candidates meet `rounds` times on each prompt, before one person."""
    arena = make_arena(n_candidates, n_prompts, name=name, slug="support")
    fill(arena, rounds)
    return arena


def make_judged_arena(judge: Rater | None, copies_people: bool = True) -> Arena:
    """People vote on two thirds of the prompts; the judge on all, like people or by a coin toss."""
    chance = random.Random(6)
    arena = make_arena(n_candidates=3, n_prompts=JUDGED_PROMPTS)
    person = make_person()
    pairs = list(combinations(arena.candidates.order_by("pk"), 2))
    of_people, of_judge = [], []
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        for pair in pairs:
            people_say = chance.choices(["left", "right", "tie"], [5, 3, 2])[0]
            if number < JUDGED_PROMPTS * 2 // 3:
                of_people.append((*pair, people_say, prompt))
            says = people_say if copies_people else chance.choice(["left", "right"])
            of_judge.append((*pair, says, prompt))
    make_votes(arena, of_people, person)
    if judge:
        make_votes(arena, of_judge, judge)
    return arena


def set_trusted(rater: Rater, trusted: bool = True) -> None:
    set_trust(rater_id=rater.pk, trusted=trusted, now=timezone.now())


def publish(arena: Arena) -> Snapshot:
    """Refresh the arena's boards regardless of the pause; return the human snapshot."""
    leases.open_arena(arena_id=arena.pk)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    refresh.refresh_arena(arena_id=arena.pk, now=timezone.now())
    return Snapshot.objects.current().get(
        board__arena=arena, board__raters="people", board__category=""
    )


def rank_anyway(arena: Arena) -> None:
    """Let the boards rank candidates as if they had enough votes."""
    for snapshot in Snapshot.objects.current().of_arena(arena):
        snapshot.settings["evidence"]["enough"] = True
        snapshot.save()
    leases.drop_pages(arena_id=arena.pk)


def fill(arena: Arena, rounds: int = 2, rater: Rater | None = None) -> None:
    """Let every two candidates meet on every prompt, with outcomes in a fixed cycle.

    No two consecutive prompts have the same outcomes.
    """
    rater = rater or make_person()
    candidates = list(arena.candidates.order_by("pk"))
    pairs, turn, rows = list(combinations(candidates, 2)), 0, []
    for prompt in list(arena.prompts.order_by("pk")) * rounds:
        turn += len(pairs) % len(CYCLE) == 0
        for left, right in pairs:
            rows.append((left, right, CYCLE[turn % len(CYCLE)], prompt))
            turn += 1
    make_votes(arena, rows, rater)


def cast(arena: Arena, outcome: str = "left", **fields: Any) -> Vote:
    """One more vote between the first two candidates."""
    left, right = arena.candidates.order_by("pk")[:2]
    return make_vote(arena, left, right, outcome, arena.prompts.first(), **fields)


def make_past(snapshot: Snapshot, hours: float, by: float = 0.0, **fields: Any) -> Snapshot:
    """An older snapshot of the same board, with scores lower `by` so many Elo."""
    standings = list(snapshot.standings.all())
    older = Snapshot.objects.get(pk=snapshot.pk)
    older.pk = None
    older.is_current, older.is_history = False, True
    older.published_at = snapshot.published_at - timedelta(hours=hours)
    for name, value in fields.items():
        setattr(older, name, value)
    older.save()
    for standing in standings:
        standing.pk, standing.snapshot = None, older
        for name in ("score", "low", "high"):
            if getattr(standing, name) is not None:
                setattr(standing, name, getattr(standing, name) - by)
    Standing.objects.bulk_create(standings)
    return older


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def markup(page: str) -> str:
    """The page without the white space around tags, which follows the indentation of templates."""
    return re.sub(r"\s*([<>])\s*", r"\1", page)


def words(page: str) -> str:
    """The visible text of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def get_page(client: Client, address: str, **query: Any) -> str:
    response = client.get(address, query or None)
    assert response.status_code == 200, response.status_code
    return str(response.text)


def open_details(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")


def serious_violations(page: Any) -> list[tuple[str, str]]:
    """The violations that axe finds: the rule, and the first element that breaks it."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [(one["id"], one["nodes"][0]["html"]) for one in serious]


def width_of(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))


def page_widths(page: Any, addresses: Iterable[str]) -> dict[str, int]:
    """How wide each page is with all its details opened."""
    widths = {}
    for address in addresses:
        page.goto(address)
        open_details(page)
        widths[address] = width_of(page)
    return widths


def claim(arena: Arena) -> Any:
    leases.open_arena(arena_id=arena.pk)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None, token=None, leased_until=None)
    return ArenaRefresh.objects.claim(arena.pk, timezone.now(), seconds(60))


def update_log(arena: Arena) -> Any:
    """Append what has happened to the log, as a refresh does first; return its head."""
    return links.update(arena_id=arena.pk, token=claim(arena))


def hidden_import(arena: Arena, number: int = 0, n_votes: int = 7) -> Import:
    source = Import.objects.create(
        arena=arena,
        file_name="votes.csv",
        sha256=f"{number:064}",
        format="pairs",
        started_at=timezone.now(),
    )
    for row in range(1, n_votes + 1):
        cast(arena, source=source, source_row=row)
    return source


def reveal(source: Import, ago: float = 0) -> None:
    """Reveal the import, with a time some seconds ago."""
    Import.objects.filter(pk=source.pk).update(revealed_at=timezone.now() - seconds(ago))
