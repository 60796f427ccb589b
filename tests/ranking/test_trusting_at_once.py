"""Trust given and withdrawn while judges vote, votes are voided, and several fold at once."""

import random
import time
from functools import partial

import pytest
from django.db import transaction
from django.utils import timezone

from arena.models import Arena, Rater
from arena.services.voting import set_trust
from ranking.models import TalliedTrust, TallyMember
from tests.factories import make_vote
from tests.ranking.test_tallying_at_once import (
    contest,
    folder,
    in_thread,
    settle_and_check,
    voider,
)

__all__ = ["contest"]  # the fixture
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def judging(arena: Arena, raters: list[Rater], seed: int, until: float) -> None:
    chance = random.Random(seed)
    while time.monotonic() < until:
        with transaction.atomic():
            left, right = chance.sample(list(arena.candidates.all()), 2)
            prompt = chance.choice([None, *arena.prompts.all()])
            outcome = chance.choice(["left", "right", "tie", "both_bad"])
            make_vote(arena, left, right, outcome, prompt, chance.choice(raters))
        time.sleep(chance.random() / 50)


def truster(raters: list[Rater], until: float) -> None:
    chance = random.Random(3)
    while time.monotonic() < until:
        rater = chance.choice(raters)
        set_trust(rater_id=rater.pk, trusted=chance.random() < 0.5, now=timezone.now())
        time.sleep(0.03)


def test_no_flip_is_lost_and_no_vote_counted_twice(contest: Arena) -> None:
    kinds = [Rater.Kind.JUDGE, Rater.Kind.JUDGE, Rater.Kind.JURY]
    raters = [Rater.objects.create(kind=kind, name=f"rater {i}") for i, kind in enumerate(kinds)]
    until = time.monotonic() + 2
    works = [
        partial(judging, contest, raters, 1, until),
        partial(judging, contest, raters, 2, until),
        partial(voider, contest, until),
        partial(truster, raters, until),
        *[partial(folder, contest, until)] * 2,
    ]
    for thread in [in_thread(work) for work in works]:
        thread.join()
    settle_and_check(contest)  # whom the tallies of the trusted count is part of that
    trusted = TallyMember.objects.trusted().filter(tally__arena=contest)
    counted = TalliedTrust.objects.filter(arena=contest)
    assert set(counted.values_list("rater")) == set(trusted.values_list("rater"))
