"""A candidate is disclosed once it has enough votes or its date has come, by the rule set at
registration."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Arena, AuditEntry, Candidate, Rater
from arena.services.candidates import disclose_due, votes_so_far
from arena.tasks import disclose_candidates
from ranking.models import ArenaRefresh
from ranking.services import leases
from tests.factories import make_arena, make_empty_team, make_person, make_vote

pytestmark = pytest.mark.django_db
NOW = timezone.now()
HOUR = timedelta(hours=1)


def hidden(arena: Arena, **rule: Any) -> Candidate:
    """The arena's first candidate, undisclosed by this rule."""
    candidate = arena.candidates.order_by("pk")[0]
    Candidate.objects.filter(pk=candidate.pk).update(disclosed_at=None, **rule)
    return candidate


def vote(arena: Arena, kind: str = "person", *, turned: bool = False, **fields: Any) -> None:
    left, right = arena.candidates.order_by("pk")[:2]
    rater = make_person() if kind == "person" else Rater.objects.create(kind=kind, name="it")
    make_vote(arena, *((right, left) if turned else (left, right)), "left", rater=rater, **fields)


def is_disclosed(candidate: Candidate) -> bool:
    candidate.refresh_from_db()
    return candidate.disclosed_at is not None


def test_it_is_named_with_the_vote_that_it_waited_for() -> None:
    arena = make_arena(2)
    candidate = hidden(arena, private_until_votes=3)
    vote(arena)
    vote(arena, "judge", turned=True)
    assert (disclose_due(now=NOW), is_disclosed(candidate)) == (0, False)
    vote(arena)
    assert (disclose_due(now=NOW), is_disclosed(candidate)) == (1, True)
    assert candidate.disclosed_at == NOW
    assert str(candidate) == "candidate-0"


def test_it_is_named_when_its_date_has_come() -> None:
    candidate = hidden(make_arena(2), private_until=NOW)
    assert (disclose_due(now=NOW - HOUR), is_disclosed(candidate)) == (0, False)
    assert (disclose_due(now=NOW), is_disclosed(candidate)) == (1, True)


@pytest.mark.parametrize("first", [{"private_until": NOW - HOUR}, {"private_until_votes": 1}])
def test_of_votes_and_date_the_first_one_decides(first: dict[str, Any]) -> None:
    arena = make_arena(2)
    rule = {"private_until": NOW + HOUR, "private_until_votes": 9} | first
    candidate = hidden(arena, **rule)
    vote(arena)
    disclose_due(now=NOW)
    assert is_disclosed(candidate)


@pytest.mark.parametrize(
    "fields", [{"kind": "jury"}, {"voided_at": NOW, "void_reason": "undone by the rater"}]
)
def test_votes_of_juries_and_voided_ones_do_not_count(fields: dict[str, Any]) -> None:
    arena = make_arena(2)
    candidate = hidden(arena, private_until_votes=1)
    vote(arena, **fields)
    assert (disclose_due(now=NOW), is_disclosed(candidate)) == (0, False)


def test_it_happens_once_and_is_noted_for_the_team() -> None:
    team = make_empty_team(slug="acme", name="Acme")
    arena = make_arena(2)
    hidden(arena, private_until=NOW, team=team)
    assert [disclose_due(now=NOW), disclose_due(now=NOW)] == [1, 0]
    entry = AuditEntry.objects.get()
    assert (entry.team, entry.action, entry.subject) == (
        team,
        "disclosed a candidate",
        "candidate-0",
    )
    assert entry.by == "a rule of the arena"


def test_pages_with_its_mask_are_dropped() -> None:
    arena = make_arena(2)
    leases.open_arena(arena_id=arena.pk)
    ArenaRefresh.objects.update(is_stale=False)
    hidden(arena, private_until=NOW)
    before = ArenaRefresh.objects.get(arena=arena).page_epoch
    disclose_candidates()
    after = ArenaRefresh.objects.get(arena=arena)
    assert (after.page_epoch, after.is_stale) == (before + 1, True)


def test_votes_are_counted_for_those_alone_that_wait_for_them() -> None:
    arena = make_arena(3)
    candidate = hidden(arena, private_until_votes=5)
    vote(arena)
    vote(arena, turned=True)
    counted = Candidate.objects.annotate(so_far=votes_so_far()).order_by("pk")
    assert [one.so_far for one in counted] == [2, None, None]
    assert counted[0] == candidate
