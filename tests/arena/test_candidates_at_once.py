"""Two people register one name, or write one version, at the same moment: one succeeds."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest

from arena.actors import Actor
from arena.models import Arena
from arena.services.candidate_checks import CandidateError
from arena.services.candidates import register_candidate, revise_candidate
from tests.deadlocks import at_once
from tests.factories import make_arena, make_team

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_doorbell")]
NOW = datetime(2026, 5, 1, tzinfo=UTC)
PEOPLE = 6


def all_at_once(work: Callable[[int], None]) -> list[str]:
    """Have `PEOPLE` threads do `work` together; return each result."""
    works = [partial(work, number) for number in range(PEOPLE)]
    return [str(error or "") for error in at_once(*works, expecting=(CandidateError,))]


def test_one_name_is_entered_once() -> None:
    arena = make_arena(0, 1, team=make_team())
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=True)
    teams = [make_team(name=f"Team {number}") for number in range(PEOPLE)]

    def enter(number: int) -> None:
        register_candidate(arena=arena, team=teams[number], by=Actor(), now=NOW, name="Same")

    became = all_at_once(enter)
    assert became.count("") == arena.candidates.count() == 1
    assert sum("is already taken in this arena" in sentence for sentence in became) == PEOPLE - 1


def test_each_revision_of_a_used_version_is_its_own_version() -> None:
    arena = make_arena(1, 1, team=make_team())
    first = arena.candidates.get()

    def revise(number: int) -> None:
        revise_candidate(candidate=first, by=Actor(), now=NOW, notes=f"Note {number}")

    assert all_at_once(revise) == [""] * PEOPLE
    versions = arena.candidates.order_by("version").values_list("version", flat=True)
    assert list(versions) == list(range(1, PEOPLE + 2))
