"""A jury is trusted as the jury that was measured: when a member changes, that one is no more."""

import pytest
from django.utils import timezone

from judges.models import Calibration, Epoch
from judges.services.calibration import settle_juries_with, settle_trust, trust_problems
from judges.services.registry import begin_next_epoch, register_jury
from tests.factories import make_arena
from tests.judges.helpers import epoch_of

pytestmark = pytest.mark.django_db
NOW = timezone.now()
MEMBERS = ("scripted:scripted-1", "scripted:scripted-2")


def formed(*members: str) -> Epoch:
    """A trusted jury."""
    jury = register_jury(members=[epoch_of(member) for member in members])
    Calibration.objects.create(
        epoch=jury,
        arena=make_arena(2, 1),
        kind="pairs",
        report={"trust": {"trusted": True, "reasons": []}},
        trusted=True,
        made_at=NOW,
    )
    assert settle_trust(epoch=jury, now=NOW)
    return jury


def is_trusted(jury: Epoch) -> bool:
    jury.rater.refresh_from_db()
    return jury.rater.trusted_at is not None


def test_a_jury_loses_its_trust_with_the_epoch_of_a_member() -> None:
    jury = formed(*MEMBERS)
    other = formed("scripted:scripted-2", "scripted:scripted-3")
    begun = begin_next_epoch(epoch=epoch_of(MEMBERS[0]), reason="It changed.", now=NOW)
    settle_juries_with(judge=begun.judge, now=NOW)
    assert (is_trusted(jury), is_trusted(other)) == (False, True)
    (problem,) = trust_problems(jury)
    assert "A member has changed since this jury was formed" in problem


def test_the_jury_that_the_same_judges_make_now_is_trusted_once_it_is_measured() -> None:
    before = formed(*MEMBERS)
    begin_next_epoch(epoch=epoch_of(MEMBERS[0]), reason="It changed.", now=NOW)
    after = formed(*MEMBERS)
    assert after.judge != before.judge
    assert is_trusted(after)
    assert not settle_trust(epoch=before, now=NOW)
