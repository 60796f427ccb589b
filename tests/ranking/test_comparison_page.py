"""A comparison's page: everything behind one vote, and nothing before the vote."""

import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Comparison, Rater, Response
from tests.factories import make_person, make_vote

pytestmark = pytest.mark.django_db


@pytest.fixture
def comparison(arena: Arena) -> Comparison:
    """A comparison with texts that waits for its rater."""
    left, right = Response.objects.filter(prompt=arena.prompts.first()).order_by("pk")[:2]
    return Comparison.objects.create(
        arena=arena,
        rater=make_person(),
        prompt=left.prompt,
        left=left.candidate,
        right=right.candidate,
        left_response=left,
        right_response=right,
    )


def vote(comparison: Comparison, **fields: Any) -> Any:
    return comparison.votes.create(
        arena=comparison.arena,
        **{"rater": comparison.rater, "outcome": "left"} | fields,
    )


def get(client: Client, comparison: Comparison) -> Any:
    return client.get(f"/a/support/comparisons/{comparison.key}/")


def test_it_shows_the_prompt_both_answers_and_the_vote(
    client: Client, comparison: Comparison
) -> None:
    vote(comparison)
    page = get(client, comparison).content.decode()
    for words in ("Question 0?", "Answer 0-0", "Answer 0-1", "candidate-0 is better", "· Person"):
        assert words in page


def test_an_open_comparison_does_not_give_its_names_away(
    client: Client, comparison: Comparison
) -> None:
    assert get(client, comparison).status_code == 404


def test_a_voided_vote_does_not_count(client: Client, comparison: Comparison) -> None:
    vote(comparison, voided_at=timezone.now(), void_reason="undone by the rater")
    assert get(client, comparison).status_code == 404


def test_a_judge_and_its_soft_verdict_are_shown(
    client: Client, comparison: Comparison, judge: Rater
) -> None:
    vote(comparison, rater=judge, preference=0.83)
    page = get(client, comparison).content.decode()
    assert "Judge A strict judge" in " ".join(page.split())
    assert "0.83 for the left answer" in page


def test_answers_are_shown_as_sanitised_markdown(client: Client, comparison: Comparison) -> None:
    Response.objects.filter(pk=comparison.left_response_id).update(
        text="**Strong** <script>alert(1)</script><img src=x onerror=alert(2)>"
    )
    vote(comparison)
    page = get(client, comparison).content.decode()
    assert "<strong>Strong</strong>" in page
    assert "<script>alert" not in page
    assert "<img" not in page


def test_an_arena_without_texts_says_so(client: Client, arena: Arena) -> None:
    left, right = arena.candidates.all()[:2]
    page = get(client, make_vote(arena, left, right, "tie").comparison).content.decode()
    assert page.count("This answer was not imported.") == 2
    assert "The prompt’s text was not imported." in page


def test_it_is_found_in_its_own_arena_only(client: Client, comparison: Comparison) -> None:
    vote(comparison)
    assert client.get(f"/a/other/comparisons/{comparison.key}/").status_code == 404
    assert client.get(f"/a/support/comparisons/{uuid.uuid4()}/").status_code == 404


def test_a_reader_with_the_page_gets_304(client: Client, comparison: Comparison) -> None:
    vote(comparison)
    first = get(client, comparison)
    again = client.get(first.request["PATH_INFO"], headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304
