"""What caches, lists and search engines learn about an arena that is not public."""

from typing import Any

import pytest
from django.urls import reverse

from tests.security.requests import path_of
from tests.security.world import PEOPLE, World, make_world

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
OUTSIDE = {"nobody", "stranger"}


def get(world: World, reader: str, name: str, **headers: str) -> Any:
    return world.callers[reader].get(path_of(name, world.at), headers=headers)


def test_no_cache_keeps_a_members_page_of_a_private_arena() -> None:
    world = make_world("private")
    for name in ("board", "board_json", "candidate", "comparison", "compare"):
        answer = get(world, "viewer", name)
        assert (answer.status_code, answer["Cache-Control"]) == (200, "private, no-store"), name
        assert "ETag" not in answer


def test_an_etag_gets_nothing_once_the_page_is_private() -> None:
    world = make_world("public")
    etag = get(world, "nobody", "board")["ETag"]
    world.arena.visibility = "private"
    world.arena.save()
    again = get(world, "nobody", "board", **{"If-None-Match": etag})
    assert (again.status_code, "ETag" in again) == (404, False)


def test_a_private_page_is_stored_for_its_members_alone() -> None:
    world = make_world("private")
    first = get(world, "viewer", "board").content
    world.arena.board_pages.update(etag="stored")
    assert get(world, "owner", "board").content == first
    assert get(world, "stranger", "board").status_code == 404


@pytest.mark.parametrize(
    ("visibility", "named_to"),
    [
        ("public", set(PEOPLE)),
        ("unlisted", set(PEOPLE) - OUTSIDE),
        ("private", set(PEOPLE) - OUTSIDE),
    ],
)
def test_lists_name_an_arena_to_those_for_whom_it_is_listed(
    visibility: str, named_to: set[str]
) -> None:
    """The index, the judges, and the API's list of arenas say the same."""
    world = make_world(visibility)
    for reader in PEOPLE:
        client = world.callers[reader]
        named = [
            world.arena.slug in client.get(reverse("index")).text,
            "scripted:scripted-1" in client.get(reverse("judges")).text,
            world.arena.slug in client.get(reverse("api_arenas")).text,
        ]
        assert set(named) == {reader in named_to}, reader


@pytest.mark.parametrize(("visibility", "said"), [("public", False), ("unlisted", True)])
def test_search_engines_are_told_what_is_not_listed(visibility: str, said: bool) -> None:
    world = make_world(visibility)
    page = get(world, "nobody", "board").text
    assert ('<meta name="robots" content="noindex">' in page) is said


def test_robots_are_told_of_no_arena() -> None:
    world = make_world("private")
    assert world.arena.slug not in world.callers["nobody"].get("/robots.txt").text
