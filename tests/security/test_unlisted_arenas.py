"""Nobody finds an unlisted arena by trying the ids of what is in it."""

from typing import Any

import pytest
from django.test import Client

from arena.models import Team
from tests.arena.rest import Caller, token_of
from tests.arena.teams import signed_in
from tests.factories import make_candidate, make_member, make_team
from tests.security.requests import ask, path_of
from tests.security.table import ROWS
from tests.security.world import World, make_world

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
BY_NUMBER = ("api_board", "api_snapshots", "api_snapshot", "api_judge_run")
BY_LINK = tuple(f"{name}_of_arena" for name in BY_NUMBER)


@pytest.fixture
def world() -> World:
    """An unlisted arena whose team has read everything, so that all its pages are stored."""
    world = make_world("unlisted")
    for name in (*BY_NUMBER, *BY_LINK):
        for caller in ("owner", "nobody", "all"):
            world.callers[caller].get(path_of(name, world.at))
    return world


def statuses(client: Client, world: World, names: Any) -> set[int]:
    return {client.get(path_of(name, world.at)).status_code for name in names}


@pytest.mark.parametrize("caller", ["nobody", "stranger", "another"])
def test_a_number_leads_no_stranger_into_an_unlisted_arena(world: World, caller: str) -> None:
    client = world.callers[caller]
    assert statuses(client, world, BY_NUMBER) == {404}
    assert statuses(client, world, BY_LINK) == {200}


@pytest.mark.slow
@pytest.mark.parametrize("caller", ["nobody", "stranger", "another"])
def test_no_address_without_the_arenas_slug_tells_of_it(world: World, caller: str) -> None:
    for name, method in ROWS:
        path = path_of(name, world.at)
        if world.arena.slug in path:
            continue
        answer = ask(world.callers[caller], method, path, ROWS[name, method].body)
        told = f"{answer.whole.decode(errors='replace')} {answer.headers.get('Location', '')}"
        assert world.arena.slug not in told, name
        assert world.arena.name not in told, name


def test_addresses_by_number_work_only_for_participants(world: World) -> None:
    for caller in ("viewer", "operator", "all"):
        assert statuses(world.callers[caller], world, BY_NUMBER) == {200}
    guests = make_team()
    program, person = token_of(guests), signed_in(make_member(guests).user)
    assert by_number(program, world) == {404}
    enter(world, guests)
    assert by_number(program, world) == {200}
    assert statuses(person, world, BY_NUMBER) == {200}


def test_a_private_arena_is_not_found_by_former_raters(world: World) -> None:
    guests = make_team()
    enter(world, guests)
    world.arena.visibility = "private"
    world.arena.save()
    assert by_number(token_of(guests), world) == {404}


def test_a_link_opens_nothing_under_another_arena(world: World) -> None:
    here = world.at | {"arenas": "elsewhere"}
    other = type(world.arena).objects.create(slug="elsewhere", name="Elsewhere")
    assert other.visibility == "public"
    for name in BY_LINK:
        assert Client().get(path_of(name, here)).status_code == 404, name


def test_a_stranger_marks_an_unlisted_verdict_by_its_link(world: World) -> None:
    world.arena.open_answers, world.arena.held_out = True, 0
    world.arena.save()
    marked = world.callers["stranger"].post(
        path_of("mark_verdict", world.at), {"mark": "coherent:yes"}
    )
    assert (marked.status_code, world.arena.slug in marked["Location"]) == (302, True)


def by_number(program: Caller, world: World) -> set[int]:
    paths = [path_of(name, world.at).removeprefix("/api/v1/") for name in BY_NUMBER]
    return {program.get(path).status_code for path in paths}


def enter(world: World, team: Team) -> None:
    make_candidate(world.arena, "guest", team=team)
