"""Scripted judges vote for nothing, so their votes say no candidate's name."""

import pytest
from django.utils import timezone

from arena.models import Candidate
from arena.services.candidates import disclose_due
from judges.models import Judge
from judges.services.registry import register_judge, spec_named
from tests.factories import make_arena, make_vote

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("endpoint", "disclosed"), [("scripted", 0), ("acme", 1)])
def test_votes_of_scripted_judges_disclose_nobody(endpoint: str, disclosed: int) -> None:
    arena = make_arena(2)
    left, right = arena.candidates.order_by("pk")
    epoch = register_judge(spec=spec_named("scripted"))
    Judge.objects.update(endpoint=endpoint)
    Candidate.objects.filter(pk=left.pk).update(disclosed_at=None, private_until_votes=1)
    make_vote(arena, left, right, "left", rater=epoch.rater)
    assert disclose_due(now=timezone.now()) == disclosed
