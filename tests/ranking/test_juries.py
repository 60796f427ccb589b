"""Juries vote by themselves: boards, records and pages of their own, only where they voted."""

import pytest
from django.test import Client

from arena.models import Arena, Rater
from ranking.models import Snapshot
from tests.ranking.helpers import cast, fill, publish

pytestmark = pytest.mark.django_db


def text(client: Client, address: str) -> str:
    return " ".join(client.get(address).content.decode().split())


def test_without_a_jurys_vote_nothing_speaks_of_juries(
    client: Client, arena: Arena, judge: Rater
) -> None:
    fill(arena, rounds=1, rater=judge)
    publish(arena)
    assert not Snapshot.objects.filter(board__raters="juries").exists()
    assert "raters=juries" not in text(client, "/a/support/")
    assert "No jury votes here yet." in text(client, "/a/support/?raters=juries")
    assert "No jury votes here yet." in text(client, "/a/support/compare/?raters=juries")


def test_a_board_of_juries_counts_juries_alone(
    client: Client, arena: Arena, judge: Rater, jury: Rater
) -> None:
    fill(arena, rounds=1, rater=judge)
    cast(arena, "left", rater=jury)
    cast(arena, "right", rater=jury)
    publish(arena)
    current = Snapshot.objects.current().filter(board__category="")
    assert dict(current.values_list("board__raters", "n_votes")) == {
        "people": 24,
        "judges": 12,
        "juries": 2,
        "combined": 24,
    }
    page = text(client, "/a/support/?raters=juries")
    assert "<strong>2</strong> votes by <strong>1</strong> jury" in page
    assert "Jury: A jury of three." in page
    found = client.get("/a/support/results.json?raters=juries").json()
    assert (found["raters"], found["n_votes"]) == ("juries", 2)


def test_judges_with_juries_but_without_people_are_shown_judges_first(
    client: Client, arena: Arena, judge: Rater, jury: Rater
) -> None:
    arena.votes.all().delete()
    fill(arena, rounds=1, rater=jury)
    fill(arena, rounds=1, rater=judge)
    publish(arena)
    assert client.get("/a/support/results.json").json()["raters"] == "judges"
    assert "12 LLM-judge votes · 12 jury votes" in text(client, "/")


def test_a_candidates_record_has_juries_beside_judges(
    client: Client, arena: Arena, jury: Rater
) -> None:
    vote = cast(arena, "left", rater=jury)
    publish(arena)
    a = arena.candidates.order_by("pk")[0].pk
    page = text(client, f"/a/support/candidates/{a}/?raters=juries")
    assert "Juries" in page
    assert "Jury A jury of three" in page
    assert "· Jury A jury of three ·" in text(client, vote.comparison.get_absolute_url())
