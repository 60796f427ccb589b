"""Wherever votes of a script are shown, it says so."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Candidate
from arena.services.candidates import disclose_due
from judges.models import Judge
from judges.services.registry import register_judge, spec_named
from tests.factories import make_arena, make_vote
from tests.judges.helpers import order, work_off
from tests.ranking.helpers import fill, publish

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.django_db,
    pytest.mark.usefixtures("quiet_boards"),
]
WARNING = "Demo only: these votes come from a script."


def pages_of(arena: Arena, raters: str) -> dict[str, str]:
    """The pages that show scores of those raters, as a stranger sees them."""
    candidate = arena.candidates.earliest("pk").pk
    pages = {
        "board": reverse("board", args=[arena.slug]),
        "embed": reverse("embed_board", args=[arena.slug]),
        "badge": reverse("badge", args=[arena.slug, candidate]),
    }
    client = Client()
    found = {name: client.get(address, {"raters": raters}).text for name, address in pages.items()}
    return found | {"home": client.get(reverse("index")).text}


@pytest.mark.parametrize(
    ("judges", "raters"),
    [
        (["scripted:scripted-1"], "judges"),
        ([f"scripted:scripted-{n}" for n in (1, 2, 3)], "juries"),
    ],
)
def test_boards_of_scripts_are_called_so_wherever_they_are_shown(
    judges: list[str], raters: str
) -> None:
    arena = make_arena(2, 4)
    work_off(order(arena, *judges, per_pair=4))
    publish(arena)
    pages = pages_of(arena, raters)
    for name in ("board", "embed", "home"):
        assert WARNING in pages[name], name
    assert ">demo: " in pages["badge"]
    assert f"{WARNING}</title>" in pages["badge"]


def test_boards_of_people_are_not() -> None:
    arena = make_arena(2, 4)
    fill(arena)
    work_off(order(arena, "scripted:scripted-1", per_pair=4))
    publish(arena)
    pages = pages_of(arena, "people")
    assert not [name for name, page in pages.items() if "demo" in page.lower()]


def test_a_sample_arena_is_a_demonstration_whoever_voted() -> None:
    arena = make_arena(2, 4)
    fill(arena)
    Arena.objects.filter(pk=arena.pk).update(is_sample=True)
    publish(arena)
    pages = pages_of(arena, "people")
    assert not [name for name, page in pages.items() if WARNING not in page]


@pytest.mark.parametrize(("endpoint", "disclosed"), [("scripted", 0), ("acme", 1)])
def test_votes_of_scripted_judges_disclose_nobody(endpoint: str, disclosed: int) -> None:
    arena = make_arena(2)
    left, right = arena.candidates.order_by("pk")
    epoch = register_judge(spec=spec_named("scripted"))
    Judge.objects.update(endpoint=endpoint)
    Candidate.objects.filter(pk=left.pk).update(disclosed_at=None, private_until_votes=1)
    make_vote(arena, left, right, "left", rater=epoch.rater)
    assert disclose_due(now=timezone.now()) == disclosed
