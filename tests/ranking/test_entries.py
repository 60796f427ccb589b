"""Entries: each stays listed, with how often it is shown, and until when it is masked."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.template.defaultfilters import date
from django.test import Client
from django.utils import timezone

from arena.actors import Actor
from arena.models import Arena, Candidate, Membership, Pair, Team
from arena.services.budgets import set_budget
from arena.services.teams import rename_team
from ranking.entries import (
    CANDIDATE_COLUMNS,
    SNAPSHOT_COLUMNS,
    Entrant,
    disclosure_rule,
    list_entrants,
)
from ranking.models import BoardPage, Snapshot
from tests.factories import make_arena, make_vote
from tests.ranking.helpers import cast, fill, markup, publish, words

pytestmark = pytest.mark.django_db
SECRETS = ("Top secret", "the-model", "a system prompt", "a template", "a parameter", "a note")


def entrants(arena: Arena) -> list[Entrant]:
    candidates = arena.candidates.select_related("team").annotate(**CANDIDATE_COLUMNS)
    snapshots = Snapshot.objects.current().of_arena(arena).annotate(**SNAPSHOT_COLUMNS)
    return list_entrants(candidates, snapshots)


def shares(arena: Arena, name: str) -> list[float | None]:
    entries = [entry for one in entrants(arena) for entry in one.entries]
    one = next(entry for entry in entries if entry.candidate.name == name)
    return [None if share is None else round(share, 3) for share in (one.ever, one.since, one.now)]


@pytest.fixture
def team() -> Team:
    return Team.objects.create(slug="acme", name="Acme")


@pytest.fixture
def undisclosed(arena: Arena, team: Team) -> Candidate:
    """An undisclosed candidate with votes."""
    candidate = arena.candidates.order_by("pk")[1]
    candidate.team, candidate.disclosed_at, candidate.private_until_votes = team, None, 100
    candidate.name, candidate.model, candidate.variant = "Top secret", "the-model", "the-model x"
    candidate.system_prompt, candidate.user_template = "a system prompt", "a template {{ prompt }}"
    candidate.parameters, candidate.notes = {"temperature": "a parameter"}, "a note"
    candidate.save()
    return candidate


def test_teams_list_versions_retired_and_undisclosed(arena: Arena, team: Team) -> None:
    make = Candidate.objects.create
    make(arena=arena, team=team, name="B")
    make(arena=arena, team=team, name="B", version=2, retired_at=timezone.now())
    make(arena=arena, team=team, name="C", disclosed_at=None, private_until_votes=9)
    acme, operators = entrants(arena)
    assert (acme.team, acme.names, len(acme.entries), acme.retired) == (team, 2, 3, 1)
    assert [entry.candidate.name for entry in acme.undisclosed] == ["C"]
    assert (operators.team, operators.names, operators.retired) == (None, 3, 0)


def test_shares_are_of_people_s_votes_and_of_pair_weights(arena: Arena, judge: Any) -> None:
    fill(arena, rounds=1, rater=judge)  # no vote of people
    publish(arena)
    low, _, high = arena.candidates.order_by("pk")
    Pair.objects.filter(arena=arena).update(weight=1.0)
    Pair.objects.filter(low=low, high=high).update(weight=2.0)
    assert shares(arena, "candidate-0") == [0.667, 0.667, 0.75]
    assert shares(arena, "candidate-1") == [0.667, 0.667, 0.5]


def test_it_says_what_a_candidate_is_shown_for(client: Client, arena: Arena) -> None:
    publish(arena)
    low, middle, high = arena.candidates.order_by("pk")
    Pair.objects.filter(arena=arena).update(weight=1.0, first=0.0, order=0.0, newcomers=0.0)
    Pair.objects.filter(low=low, high=high).update(weight=2.0, first=0.8, newcomers=0.4)
    purposes = {
        entry.candidate.pk: entry.purposes for one in entrants(arena) for entry in one.entries
    }
    assert purposes == {
        low.pk: "20% first place, 10% newcomers, 45% even share",
        middle.pk: "50% even share",
        high.pk: "20% first place, 10% newcomers, 45% even share",
    }
    assert purposes[low.pk] in words(client.get("/a/support/about/").text)


def test_a_candidate_that_came_later_is_measured_from_then_on(
    arena: Arena, published: Snapshot
) -> None:
    late = Candidate.objects.create(arena=arena, name="late")
    first = arena.candidates.order_by("pk")[0]
    for _ in range(4):
        cast(arena)
    for _ in range(2):
        make_vote(arena, first, late, "both_bad")
    publish(arena)
    assert shares(arena, "late") == [round(2 / 30, 3), round(2 / 6, 3), 0]
    assert shares(arena, "candidate-0")[0] == shares(arena, "candidate-0")[1]


def test_what_is_retired_is_not_drawn_any_more(arena: Arena, published: Snapshot) -> None:
    arena.candidates.filter(name="candidate-2").update(retired_at=timezone.now())
    assert [shares(arena, f"candidate-{n}")[2] for n in range(3)] == [1, 1, 0]


def test_without_votes_there_are_no_shares() -> None:
    arena = make_arena(2)
    publish(arena)
    assert shares(arena, "candidate-0") == [None, None, 1]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"private_until_votes": 1200}, "it has 1,200 votes"),
        ({"private_until": datetime(2027, 1, 5, 9, tzinfo=UTC)}, "5 January 2027, 09:00 UTC"),
        (
            {"private_until_votes": 9, "private_until": datetime(2027, 1, 5, 9, tzinfo=UTC)},
            "it has 9 votes, or 5 January 2027, 09:00 UTC, whichever is first",
        ),
    ],
)
def test_the_rule_is_stated(rule: dict[str, Any], says: str) -> None:
    assert disclosure_rule(Candidate(**rule)) == says


def test_the_board_lists_every_entry(client: Client, arena: Arena, undisclosed: Candidate) -> None:
    arena.candidates.filter(name="candidate-0").update(retired_at=timezone.now())
    publish(arena)
    section = client.get("/a/support/about/").content.decode()
    assert '<th scope="row" class="name">Acme</th>' in section
    told = (
        f"Undisclosed {undisclosed.pk} by Acme is undisclosed until it has 100 votes (16 so far)."
    )
    assert told in words(section)
    assert "The site’s administrators" in section
    assert "candidate-0 archived" in words(section)
    assert "candidate-0 archived" in words(client.get("/a/support/").text)


def cells_of(section: str, name: str) -> list[str]:
    """The cells beside a name in one of the section's tables."""
    section = markup(section)
    row = section[section.index(f">{name}<") :].partition("</tr>")[0]
    return re.findall(r'<td class="number">([^<]*)</td>', row)


def test_every_team_s_row_counts_what_it_entered(
    client: Client, arena: Arena, undisclosed: Candidate
) -> None:
    make = Candidate.objects.create
    make(arena=arena, team=undisclosed.team, name="B")
    make(arena=arena, team=undisclosed.team, name="B", version=2, retired_at=timezone.now())
    publish(arena)
    section = client.get("/a/support/about/").text
    assert cells_of(section, "Acme") == ["2", "3", "1", "1"]
    assert cells_of(section, "The site’s administrators") == ["2", "2", "0", "0"]


def test_shares_are_visible_without_opening_anything(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    late = Candidate.objects.create(arena=arena, name="late")
    for _ in range(4):
        cast(arena)
    for _ in range(2):
        make_vote(arena, arena.candidates.order_by("pk")[0], late, "both_bad")
    publish(arena)
    section = client.get("/a/support/about/").text
    often = section[section.index('id="entries"') : section.index('id="exports"')]
    assert "<details" not in often
    entered = date(late.created_at, "j M Y")
    often = re.sub("</?time[^>]*>", "", section[section.index('id="shown-how-often"') :])
    assert cells_of(often, "late") == [entered, *(f"{n}%" for n in (7, 33, 0))]
    assert cells_of(often, "candidate-2")[:3] == [entered, *["53%"] * 2]


def test_a_page_made_anew_takes_eight_queries(
    arena: Arena,
    published: Snapshot,
    undisclosed: Candidate,
    client: Client,
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    for number in range(12):
        Candidate.objects.create(arena=arena, team=undisclosed.team, name=f"more {number}")
    with django_assert_max_num_queries(8):
        assert client.get(f"/a/{arena.slug}/about/").status_code == 200


def pages_of(arena: Arena, candidate: Candidate) -> list[str]:
    other = arena.candidates.exclude(pk=candidate.pk).first()
    comparison = arena.votes.filter(comparison__left=candidate)[0].comparison
    return [
        *("/", "/a/support/", "/a/support/results.csv", "/a/support/results.json"),
        *("/a/support/compare/", "/a/support/price/", "/a/support/about/"),
        *(f"/a/support/?columns={name}" for name in ("categories", "reasons", "details")),
        f"/a/support/compare/?a={candidate.pk}&b={other.pk}",
        f"/a/support/candidates/{candidate.pk}/",
        f"/a/support/candidates/{other.pk}/",
        f"/a/support/comparisons/{comparison.key}/",
    ]


def test_no_page_reveals_what_an_undisclosed_candidate_is(
    client: Client, arena: Arena, undisclosed: Candidate, judge: Any
) -> None:
    fill(arena, rounds=1, rater=judge)
    publish(arena)
    for page in pages_of(arena, undisclosed):
        answer = client.get(page)
        assert answer.status_code == 200, page
        text = answer.content.decode()
        assert [told for told in SECRETS if told in text] == [], page
        if page not in ("/", "/a/support/price/"):
            assert str(undisclosed) in text or str(undisclosed) in json.dumps(text), page


def test_its_page_says_until_when_and_tells_its_team_what_it_is(
    published: Snapshot, undisclosed: Candidate, django_user_model: Any
) -> None:
    ann = django_user_model.objects.create_user("ann")
    Membership.objects.create(team=undisclosed.team, user=ann, role="viewer")
    client = Client()
    url = f"/a/support/candidates/{undisclosed.pk}/"
    outside = client.get(url)
    assert "undisclosed until it has 100 votes (16 so far)" in outside.content.decode()
    assert "Visible to your team" not in outside.content.decode()
    client.force_login(ann)
    inside = client.get(url)
    assert "Visible to your team only" in inside.content.decode()
    assert all(told in inside.content.decode() for told in SECRETS)
    assert inside["Cache-Control"] == "private, no-store"


def test_masks_stand_in_the_order_of_what_is_shown(client: Client) -> None:
    arena = make_arena(0, slug="support")
    hidden = {"disclosed_at": None, "private_until": timezone.now() + timedelta(1)}
    for pk, name in ((910, "Aardvark"), (909, "Zebra")):
        Candidate.objects.create(pk=pk, arena=arena, name=name, **hidden)
    Candidate.objects.create(pk=911, arena=arena, name="Middle")
    page = client.get("/a/support/").content.decode()
    names = ("<li>Middle<", "<li>Undisclosed 909<", "<li>Undisclosed 910<")
    middle, zebra, aardvark = map(page.index, names)
    assert middle < zebra < aardvark


def test_a_team_has_its_new_name(client: Client, arena: Arena, team: Team) -> None:
    Candidate.objects.create(arena=arena, team=team, name="B")
    publish(arena)
    assert "Acme" in client.get("/a/support/about/").text
    rename_team(team=team, name="Zenith", by=Actor())
    assert "Zenith" in client.get("/a/support/about/").text


def test_a_budget_leaves_stored_pages_alone(client: Client, arena: Arena, team: Team) -> None:
    Candidate.objects.create(arena=arena, team=team, name="B")
    publish(arena)
    client.get("/a/support/")
    set_budget(team=team, budget=1, by=Actor())
    assert BoardPage.objects.exists()
