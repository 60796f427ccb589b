"""The page about an arena: how its numbers are made, with the settings in force, and its files."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from arena.models import Arena, Vote
from ranking.leaderboard import MAX_DIFFERENCE
from ranking.models import Board, BothBad, Snapshot
from ranking.services import leases
from ranking.services.elo import N_RESAMPLES
from ranking.stats.intervals import MIN_CLUSTERS
from ranking.stats.ranks import DRAWS
from tests.factories import make_arena
from tests.ranking.helpers import cast, get_page, publish, words

pytestmark = pytest.mark.django_db


def about(client: Client, address: str = "/a/support/about/") -> str:
    return get_page(client, address)


ANCHORS = (
    *("score", "interval", "clusters", "rank", "tiers", "number-one", "claim", "neighbours"),
    *("fragility", "style", "elo", "win-rate", "both-bad", "agreement", "transitivity"),
    *("not-comparable", "votes", "suspicious", "log", "second-opinion", "settings"),
    *("entries", "shown-how-often", "exports"),
)


def test_every_place_that_pages_lead_to_is_there_once(client: Client, published: Snapshot) -> None:
    page = about(client)
    for anchor in ANCHORS:
        assert page.count(f'id="{anchor}"') == 1, anchor
    assert 'id="combined"' not in page
    assert 'id="cost"' not in page  # no candidate here has costs
    assert page.count("<math") > 20
    assert "latex" not in page  # the source of a formula that could not be read


def test_it_is_short_apart_from_formulas(client: Client, published: Snapshot) -> None:
    page = about(client)
    methods = page[page.index('id="methodology"') : page.index('id="entries"')]
    assert len(words(re.sub("<details.*?</details>", "", methods, flags=re.DOTALL)).split()) < 1000


def test_the_settings_are_those_in_force(client: Client, arena: Arena, published: Snapshot) -> None:
    Board.objects.filter(arena=arena, category="").update(
        seed=77, n_resamples=44, both_bad=BothBad.TIE
    )
    cast(arena)
    snapshot = publish(arena)
    page = about(client)
    assert "44 replicates, seed 77" in page
    assert "counts as a tie on this leaderboard" in page
    assert "grouped by the prompt. 8 prompts are worth 8 with equally many votes" in words(page)
    assert "2 raters are worth 1." in words(page)
    for name, number in snapshot.settings["versions"].items():
        assert f"{name} {number}" in page


def test_it_says_how_anybody_checks_the_votes(client: Client, arena: Arena) -> None:
    log = publish(arena).settings["log"]
    page = words(about(client))
    assert f"manage.py verify log.jsonl --key {log['key']}" in page
    assert log["digest"] in page
    assert "all votes count" in page
    assert "Votes that programs cast with the team’s token count" in page
    arena.counts_tokens = False
    arena.save()
    assert "Votes that programs cast" not in words(about(client))
    board = get_page(client, "/a/support/")
    assert "about/?raters=people#exports" in board
    Vote.objects.filter(pk__in=arena.votes.values("pk")[:2]).update(uncounted="rushed", rushed=True)
    publish(arena)
    assert "2 votes not counted" in words(about(client))
    assert "2 votes not counted" in words(get_page(client, "/a/support/"))


def test_what_the_board_found_is_quoted(client: Client, arena: Arena, published: Snapshot) -> None:
    found = {
        "transitivity": {"share": 1.0, "triads": 1, "transitive": 1},
    }
    Snapshot.objects.filter(pk=published.pk).update(findings=found)
    leases.drop_pages(arena_id=arena.pk)
    page = about(client)
    assert "Of the 1 sets of three" in page
    assert "No two votes are on the same prompt and the same two answers." in page


def test_it_says_what_the_interval_is_about(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    assert published.settings["clusters"] == "prompt"
    page = words(about(client))
    assert "With other prompts the score would differ: intervals" in page


def test_a_combined_board_explains_its_own_numbers(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    told = {"lambda": 0.5, "gain": 1.62, "n_judge_votes": 4830, "reason": ""}
    Snapshot.objects.filter(pk=published.pk).update(findings={"combined": told})
    Board.objects.filter(pk=published.board_id).update(raters="combined")
    leases.drop_pages(arena_id=arena.pk)
    page = about(client, "/a/support/about/?raters=combined")
    assert 'id="combined"' in page
    assert "4,830 votes by trusted judges narrow" in page
    assert "replicates" not in page
    assert 'id="transitivity"' not in page


def test_constants_that_the_page_names_are_those_of_the_code(
    client: Client, published: Snapshot
) -> None:
    page = words(about(client))
    assert f"shuffles their order, {N_RESAMPLES} times" in page
    assert f"more than {MAX_DIFFERENCE} Elo" in page
    assert f"Below {MIN_CLUSTERS} effective prompts" in page
    assert f"Below {MIN_CLUSTERS} effective raters" in page
    assert f"fewer than {MIN_CLUSTERS} groups" in page
    assert f"({DRAWS:,} draws)" in page


def test_each_category_has_a_page_linked_from_the_board(
    client: Client, published: Snapshot
) -> None:
    address = "/a/support/about/?raters=people&category=category-1"
    assert "in the category “category-1”" in words(about(client, address))
    board = about(client, "/a/support/?category=category-1&sort=votes")
    assert address.replace("&", "&amp;") in board
    assert '/a/support/compare/?raters=people&amp;category=category-1"' in board
    assert client.get("/a/support/about/?category=none").status_code == 404
    assert client.get("/a/nowhere/about/").status_code == 404


def test_a_stored_page_costs_one_query(
    client: Client,
    published: Snapshot,
    django_assert_num_queries: Callable[..., Any],
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    with django_assert_max_num_queries(9):
        first = client.get("/a/support/about/")
    with django_assert_num_queries(1):
        again = client.get("/a/support/about/?sort=votes&utm=1")
    assert first.content == again.content
    known = client.get("/a/support/about/", headers={"If-None-Match": first["ETag"]})
    assert known.status_code == 304


def test_before_the_first_board_there_is_a_page_that_says_so(client: Client) -> None:
    make_arena(slug="new")
    assert "being computed" in about(client, "/a/new/about/")


def test_an_empty_board_is_explained_too(client: Client) -> None:
    publish(make_arena(n_candidates=0, slug="empty"))
    page = about(client, "/a/empty/about/")
    assert "With too few votes or prompts there is no ranking." in words(page)
    assert "This arena has no candidates yet." in page


def test_there_is_nothing_inline(client: Client, published: Snapshot) -> None:
    page = about(client)
    assert " style=" not in page
    assert page.count("<script") == page.count("<script src=")
