"""Which answer a judge saw first, and whose votes measure a judge."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Comparison, Run, Vote
from judges.models import Epoch, Judgement
from judges.services.calibration import measure_arena
from judges.services.calibration_items import arena_items, voted_on
from tests.factories import make_arena, make_person
from tests.judges.fake_server import FakeServer, Sent, completion, nonce_of
from tests.judges.helpers import LOCAL, order, work_off

pytestmark = pytest.mark.django_db


def vote_like(judgement: Judgement, **fields: Any) -> None:
    """A person's vote for the left answer of what a judge was asked about."""
    judged, rater = judgement.comparison, make_person()
    assert judged is not None
    names = ("arena", "prompt", "left", "right", "left_response", "right_response")
    copied = {name: getattr(judged, name) for name in names}
    shown = Comparison.objects.create(rater=rater, **copied, **fields)
    Vote.objects.create(
        arena=judged.arena, comparison=shown, rater=rater, outcome="left", logged=False
    )


def judged_run(arena: Arena, judge: str) -> Run:
    return work_off(order(arena, judge, per_pair=6))


def as_shown(body: dict[str, Any]) -> Sent:
    """A listwise judge that ranks every list as it is shown."""
    text = body["messages"][-1]["content"]
    letters = sorted(set(re.findall(r"<answer-([a-z])-", text)))
    return completion(f"So.\nVERDICT-{nonce_of(body)}: {' > '.join(letters).upper()}")


def test_list_ranked_as_shown_prefers_the_first_position(local: FakeServer) -> None:
    local.otherwise = as_shown
    arena = make_arena(4, 5)
    for judgement in judged_run(arena, f"{LOCAL}@listwise").judgements.all():
        vote_like(judgement)
    epoch = Epoch.objects.get()
    items = arena_items(epoch, arena)
    assert len(items) == 30
    assert {(item.forward, item.reverse) for item in items} == {("left", "right")}
    report = measure_arena(epoch=epoch, arena=arena, now=timezone.now()).report
    assert (report["first_position"]["value"], report["flips"]["value"]) == (1, 1)


def test_votes_on_drawn_and_imported_pairs_measure_a_judge() -> None:
    arena = make_arena(2, 2)
    drawn, imported = judged_run(arena, "scripted").judgements.all()
    vote_like(drawn, issued_at=timezone.now(), draw_probability=0.5)
    vote_like(imported)
    assert voted_on(arena).keys() == {drawn.responses, imported.responses}


def test_votes_requested_beside_verdicts_do_not_measure(client: Client) -> None:
    arena = make_arena(2, 2)
    run = judged_run(arena, "scripted")
    judgement = run.judgements.filter(state="voted").first()
    assert judgement is not None
    page = reverse("vote_on_verdict", args=[arena.slug, run.pk, judgement.pk])
    key = client.post(page)["Location"].partition("pair=")[2]
    client.post(reverse("cast_vote", args=[arena.slug, key]), {"outcome": "left"})
    assert arena.votes.of_people().count() == 1
    assert voted_on(arena) == {}
