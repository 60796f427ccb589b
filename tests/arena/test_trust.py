"""Trust in a judge's or a jury's votes: given, withdrawn, and announced where it matters."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Rater
from arena.services.raters import NotAJudgeError, set_trust
from arena.signals import trust_changed
from tests.factories import make_arena, make_person, make_vote

pytestmark = pytest.mark.django_db


@pytest.fixture
def heard() -> Any:
    """The arenas of which the arena app said that trust has changed."""
    told: list[int] = []

    def listen(arena_id: int, **_: Any) -> None:
        told.append(arena_id)

    trust_changed.connect(listen)
    yield told
    trust_changed.disconnect(listen)


@pytest.mark.parametrize("kind", ["judge", "jury"])
def test_trust_is_given_and_withdrawn(kind: str) -> None:
    rater = Rater.objects.create(kind=kind, name="strict")
    now = timezone.now()
    assert set_trust(rater_id=rater.pk, trusted=True, now=now)
    rater.refresh_from_db()
    assert rater.trusted_at == now
    assert set_trust(rater_id=rater.pk, trusted=False, now=now)
    rater.refresh_from_db()
    assert rater.trusted_at is None


def test_unchanged_trust_keeps_its_date_and_sends_no_notice(heard: list[int]) -> None:
    rater = Rater.objects.create(kind="judge", name="strict")
    arena = make_arena(2, 1)
    make_vote(arena, *arena.candidates.all(), "left", rater=rater)
    now = timezone.now()
    set_trust(rater_id=rater.pk, trusted=True, now=now)
    assert heard == [arena.pk]
    assert not set_trust(rater_id=rater.pk, trusted=True, now=now + timedelta(days=1))
    rater.refresh_from_db()
    assert (rater.trusted_at, heard) == (now, [arena.pk])


def test_only_arenas_with_votes_of_the_rater_are_reported(heard: list[int]) -> None:
    rater = Rater.objects.create(kind="judge", name="strict")
    voted = [make_arena(2, 1), make_arena(2, 1)]
    other = make_arena(2, 1)
    for arena in [*voted, voted[0]]:
        make_vote(arena, *arena.candidates.all(), "left", rater=rater)
    make_vote(other, *other.candidates.all(), "left")
    set_trust(rater_id=rater.pk, trusted=True, now=timezone.now())
    assert heard == [arena.pk for arena in voted]


def test_people_are_not_trusted_or_distrusted() -> None:
    person = make_person()
    with pytest.raises(NotAJudgeError, match="is not a judge or jury"):
        set_trust(rater_id=person.pk, trusted=True, now=timezone.now())
    with pytest.raises(NotAJudgeError):
        set_trust(rater_id=10**9, trusted=False, now=timezone.now())
