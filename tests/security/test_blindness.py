"""Before the vote nothing reveals the authors: no word, no id, no header, no order."""

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Comparison
from arena.services import comparisons
from arena.services.pairs import sync_pairs
from tests.arena.rest import team_arena, token_of
from tests.factories import make_person, make_team
from tests.security.world import SECRET_NAME, undisclosed

pytestmark = pytest.mark.django_db
NAMES = ("Aardvark-9000", "Basilisk-9000", SECRET_NAME)
ENDPOINT, MODEL = "scripted", "model-of-mystery"


@pytest.fixture
def named_arena() -> Arena:
    """Two candidates with names that stand out, and one that is not disclosed."""
    arena = team_arena(make_team(), n_candidates=2, n_prompts=4)
    for candidate, name in zip(arena.candidates.order_by("pk"), NAMES, strict=False):
        candidate.name, candidate.notes, candidate.model = name, f"{name} notes", MODEL
        candidate.save()
    hidden = undisclosed(arena)
    hidden.responses.bulk_create(
        hidden.responses.model(candidate=hidden, prompt=prompt, text=f"Answer {prompt.pk} too.")
        for prompt in arena.prompts.all()
    )
    sync_pairs(arena=arena)
    return arena


def everything(answer: Any) -> str:
    cookies = " ".join(morsel.OutputString() for morsel in answer.cookies.values())
    return f"{dict(answer.headers)} {cookies} {answer.content.decode()}"


def tells_nothing(answer: Any, arena: Arena) -> None:
    said = everything(answer)
    for word in [*NAMES, MODEL, "Hush", "notes", "Undisclosed"]:
        # As a word of its own: the letters of a random token may spell anything.
        found = re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", said, re.IGNORECASE)
        assert found is None, word
    paths = re.findall(r'(?:href|action|src|hx-\w+)="([^"]*)"', said)
    for candidate in arena.candidates.all():
        assert not any(re.search(rf"/candidates/{candidate.pk}\b", path) for path in paths)


def test_the_pages_of_a_rater_name_nobody(named_arena: Arena) -> None:
    rater = Client()
    vote = reverse("vote", args=[named_arena.slug])
    for _ in range(6):
        page = rater.get(vote)
        tells_nothing(page, named_arena)
        (key,) = set(re.findall(r'data-key="([0-9a-f-]{36})"', page.content.decode()))
        ahead = rater.get(reverse("next_pair", args=[named_arena.slug]), {"besides": key})
        tells_nothing(ahead, named_arena)
        tells_nothing(rater.post(reverse("cast_vote", args=[named_arena.slug, key])), named_arena)
        skipped = rater.post(
            reverse("cast_vote", args=[named_arena.slug, key]), {"outcome": "skip"}
        )
        tells_nothing(skipped, named_arena)


def test_the_comparison_has_no_page_before_its_vote(named_arena: Arena) -> None:
    waiting = comparisons.next_comparison(
        arena=named_arena, rater=make_person(), now=timezone.now()
    )
    assert waiting is not None
    page = Client().get(reverse("comparison", args=[named_arena.slug, waiting.key]))
    assert page.status_code == 404
    tells_nothing(page, named_arena)


def test_the_api_names_nobody_and_numbers_nobody(named_arena: Arena) -> None:
    caller = token_of(named_arena.team)
    place = f"arenas/{named_arena.slug}/comparisons/"
    for i in range(6):
        issued = caller.post(place, {"rater": f"rater-{i}"})
        key = issued.json()["key"]
        answers = [issued, caller.get(f"{place}{key}/"), caller.post(f"{place}{key}/skip/")]
        for answer in answers:
            tells_nothing(answer, named_arena)
            assert not list(numbers(answer.json())), answer.json()
            assert answer.json()["candidates"] is None


def numbers(value: Any) -> Any:
    """Every number within: an id of a candidate or of a response would be one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def test_neither_side_nor_key_follows_the_order_of_ids(named_arena: Arena) -> None:
    now = timezone.now()
    for _ in range(60):
        assert comparisons.next_comparison(arena=named_arena, rater=make_person(), now=now)
    issued = Comparison.objects.filter(arena=named_arena)
    older_left = [one.left_id < one.right_id for one in issued]
    assert 12 <= sum(older_left) <= 48  # a fair coin leaves this once in a million
    assert len({json.dumps(str(one.key)) for one in issued}) == 60
    assert {one.key.version for one in issued} == {4}


def test_votes_that_are_exported_have_no_answers_that_wait(named_arena: Arena) -> None:
    """The exports reveal nothing about a pair before its vote."""
    comparisons.next_comparison(arena=named_arena, rater=make_person(), now=timezone.now())
    caller = token_of(named_arena.team)
    for name in ("battles.csv", "battles.jsonl", "dpo.jsonl"):
        answer = caller.get(f"arenas/{named_arena.slug}/exports/{name}")
        rows = answer.getvalue().decode().splitlines()
        assert len(rows) == (1 if name.endswith("csv") else 0), name
    assert caller.get(f"arenas/{named_arena.slug}/battles/").json()["results"] == []
