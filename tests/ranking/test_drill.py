"""`manage.py drill` attacks a copy of an arena's votes and writes nothing."""

import random
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from arena.models import Hold, Vote
from tests.factories import make_arena, make_person, make_vote

pytestmark = pytest.mark.django_db


def drill(*arguments: str) -> str:
    out = StringIO()
    call_command("drill", *arguments, stdout=out)
    return out.getvalue()


def test_a_drill_says_what_each_attack_costs_and_how_fragile_number_one_is() -> None:
    arena, chance = make_arena(3, 30), random.Random(2)
    candidates = list(arena.candidates.order_by("pk"))
    prompts = list(arena.prompts.order_by("pk"))
    for _ in range(12):
        rater = make_person()
        for number in range(30):
            a, b = sorted(chance.sample(range(3), 2))
            outcome = "left" if chance.random() < 0.7 else "right"
            make_vote(arena, candidates[a], candidates[b], outcome, prompts[number], rater)
    make_vote(arena, candidates[2], candidates[0], "left", rushed=True, uncounted="rushed")
    Vote.objects.update(channel="browser")
    before = set(Vote.objects.values_list("pk", "outcome", "uncounted"))
    said = drill(arena.slug, "--target", "candidate-2")
    assert said.startswith("360 votes by 12 raters; the target is candidate-2.")
    for attack in ("target only", "omnipresent", "careful", "burst", "slow", "many networks"):
        assert f"{attack}: " in said
    assert "100 % of them are held" in said.split("target only: ")[1].split("\n")[0]
    for change in ("dropping", "adding", "flipping"):
        line = said.split(f"By {change}, ")[1].split("\n")[0]
        assert "votes between candidate-0 and candidate-1 would put candidate-1 first." in line
    assert set(Vote.objects.values_list("pk", "outcome", "uncounted")) == before
    assert not Hold.objects.exists()


def test_a_drill_names_what_it_cannot_find() -> None:
    arena = make_arena(2, 1)
    with pytest.raises(CommandError, match="no arena"):
        drill("nowhere")
    with pytest.raises(CommandError, match="No human votes compare two candidates"):
        drill(arena.slug)
