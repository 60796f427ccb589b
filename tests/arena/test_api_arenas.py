"""Arenas in the API: created by a token, listed, and changed by their owners."""

from typing import Any

import pytest
from django.urls import reverse

from arena.models import Arena, AuditEntry
from tests.arena.rest import Caller, member_of, team_arena, token_of
from tests.factories import make_arena, make_team, make_user

pytestmark = pytest.mark.django_db


def slugs(response: Any) -> set[str]:
    return {arena["slug"] for arena in response.json()["results"]}


def test_a_token_makes_an_arena_of_its_team() -> None:
    team = make_team()
    sent = {"name": "Search answers", "question": "Which one?", "visibility": "private"}

    response = token_of(team).post("arenas/", sent)

    arena = Arena.objects.get()
    assert response.status_code == 201
    assert response.headers["Location"] == f"/api/v1/arenas/{arena.slug}/"
    assert response.json() | sent == response.json()
    assert response.json()["team"] == team.slug
    assert response.json()["page"] == f"http://testserver/a/{arena.slug}/"
    entry = AuditEntry.objects.filter(action="made an arena").get()
    assert (entry.team, entry.token) == (team, team.tokens.get())


def test_a_person_names_the_team() -> None:
    team, other = make_team(), make_team()
    caller = member_of(team)

    assert caller.post("arenas/", {"name": "A", "team": team.slug}).status_code == 201
    assert caller.post("arenas/", {"name": "A"}).status_code == 422
    theirs = caller.post("arenas/", {"name": "A", "team": other.slug})
    missing = caller.post("arenas/", {"name": "A", "team": "nobodys"})
    assert (theirs.status_code, missing.status_code) == (422, 422)
    assert theirs.json()["errors"][0]["pointer"] == "#/team"
    assert theirs.content.replace(other.slug.encode(), b"nobodys") == missing.content


def test_an_operator_makes_an_arena_for_any_team_as_on_its_page() -> None:
    team, operator = make_team(), Caller(user=make_user(is_staff=True))

    assert operator.client.get(reverse("new_arena", args=[team.slug])).status_code == 200
    assert operator.post("arenas/", {"name": "A", "team": team.slug}).status_code == 201
    assert Arena.objects.get().team == team
    assert operator.post("arenas/", {"name": "A", "team": "nobodys"}).status_code == 422


def test_a_new_arena_is_unlisted_unless_it_says_otherwise() -> None:
    caller = token_of(make_team())
    assert caller.post("arenas/", {"name": "A"}).json()["visibility"] == "unlisted"
    made = caller.post("arenas/", {"name": "B", "visibility": "public"}).json()
    assert made["visibility"] == "public"
    changed = {"criteria": "Short."}
    assert caller.patch(f"arenas/{made['slug']}/", changed).json()["visibility"] == "public"


def test_a_viewer_makes_nothing() -> None:
    team = make_team()

    response = member_of(team, "viewer").post("arenas/", {"name": "A", "team": team.slug})

    assert response.status_code == 403
    assert not Arena.objects.exists()


def test_a_service_s_refusal_points_at_the_member() -> None:
    team = make_team()
    token_of(team).post("arenas/", {"name": "A", "slug": "taken"})

    response = token_of(team).post("arenas/", {"name": "B", "slug": "taken"})

    assert response.status_code == 422
    assert response.json()["errors"] == [{"pointer": "#/slug", "detail": response.json()["detail"]}]


@pytest.mark.parametrize("visibility", ["public", "unlisted", "private"])
def test_a_given_slug_is_the_address(visibility: str) -> None:
    sent = {"name": "Search answers", "slug": "search-24", "visibility": visibility}

    response = token_of(make_team()).post("arenas/", sent)

    assert (response.status_code, response.json()["slug"]) == (201, "search-24")


def test_a_slug_that_is_no_address_is_refused() -> None:
    caller = token_of(make_team())

    for slug in ("Search answers!", "a" * 61):
        response = caller.post("arenas/", {"name": "A", "slug": slug})
        assert response.status_code == 400
        assert [error["pointer"] for error in response.json()["errors"]] == ["#/slug"]
    assert caller.post("arenas/", {"name": "A", "slug": "new"}).status_code == 422
    assert not Arena.objects.exists()


def test_a_list_holds_public_arenas_and_the_readers_own() -> None:
    team = make_team()
    arenas = {
        name: make_arena(n_candidates=0, n_prompts=0, team=team, visibility=name).slug
        for name in ("public", "unlisted", "private")
    }

    assert slugs(token_of(team).get("arenas/")) == set(arenas.values())
    assert slugs(member_of(team, "viewer").get("arenas/")) == set(arenas.values())
    assert slugs(Caller().get("arenas/")) == {arenas["public"]}
    assert slugs(token_of(make_team()).get("arenas/")) == {arenas["public"]}
    assert slugs(Caller(user=make_user(is_staff=True)).get("arenas/")) == set(arenas.values())


def test_a_list_is_filtered() -> None:
    team = make_team()
    private = team_arena(team, "private", n_candidates=0, n_prompts=0).slug
    public = team_arena(team, "public", n_candidates=0, n_prompts=0).slug
    make_arena(n_candidates=0, n_prompts=0)
    caller = token_of(team)

    assert slugs(caller.get(f"arenas/?team={team.slug}")) == {private, public}
    assert slugs(caller.get(f"arenas/?team={team.slug}&visibility=private")) == {private}
    refused = caller.get("arenas/?visibility=everybody").json()["detail"]
    assert refused == "visibility must be one of: public, unlisted, private."
    assert slugs(caller.get("arenas/?team=nobodys")) == set()


@pytest.mark.parametrize(
    "sent",
    [
        {"name": "New"},
        {"question": "Which?"},
        {"description": "New"},
        {"visibility": "private"},
        {"criteria": "Short.", "voters": "members"},
    ],
)
def test_settings_are_for_owners_alone_as_on_their_page(sent: dict[str, str]) -> None:
    team = make_team()
    arena = team_arena(team)
    path, member = f"arenas/{arena.slug}/", member_of(team)

    assert member.patch(path, sent).status_code == 403
    assert member.client.get(reverse("arena_settings", args=[arena.slug])).status_code == 403
    by_token = token_of(team).patch(path, sent)
    assert by_token.status_code == 403
    assert "owner" in by_token.json()["detail"]
    owner = member_of(team, "owner")
    assert owner.patch(path, sent).json() | sent == owner.get(path).json()


def test_members_change_the_criteria_too() -> None:
    team = make_team()
    arena = team_arena(team)
    path, said = f"arenas/{arena.slug}/", {"criteria": "Short."}
    page = reverse("arena_criteria", args=[arena.slug])

    for role, status, on_page in (("viewer", 403, 403), ("member", 200, 302), ("owner", 200, 302)):
        caller = member_of(team, role)
        assert caller.patch(path, said).status_code == status, role
        assert caller.client.post(page, said).status_code == on_page, role
    assert token_of(team, "submit").patch(path, said).status_code == 200
    assert token_of(team, "read", "judge").patch(path, said).status_code == 403


def test_a_change_names_only_what_changes() -> None:
    team = make_team()
    arena = team_arena(team, question="Which one is kinder?")

    response = member_of(team, "owner").patch(f"arenas/{arena.slug}/", {"name": "New"})

    assert response.json()["name"] == "New"
    assert response.json()["question"] == "Which one is kinder?"


def test_an_owner_fixes_the_scale_at_a_candidate_of_the_arena() -> None:
    team = make_team()
    arena = team_arena(team)
    chosen, foreign = arena.candidates.earliest("pk"), make_arena().candidates.earliest("pk")
    path, owner = f"arenas/{arena.slug}/", member_of(team, "owner")
    sent = {"anchor": chosen.pk, "anchor_score": 1114}

    assert owner.get(path).json() | {"anchor": None, "anchor_score": 1000} == owner.get(path).json()
    assert owner.patch(path, sent).json() | sent == owner.get(path).json()
    for wrong, pointer in (
        ({"anchor": foreign.pk}, "#/anchor"),
        ({"anchor": 10**9}, "#/anchor"),
        ({"anchor": "x"}, "#/anchor"),
        ({"anchor_score": 10_001}, "#/anchor_score"),
        ({"anchor_score": "NaN"}, "#/anchor_score"),
        ({"anchor_score": None}, "#/anchor_score"),
    ):
        refused = owner.patch(path, wrong)
        assert refused.status_code in (400, 422), wrong
        assert refused.json()["errors"][0]["pointer"] == pointer
    assert owner.patch(path, {"anchor": None}).json()["anchor"] is None
    assert member_of(team).patch(path, sent).status_code == 403


def test_an_arena_of_operators_is_changed_by_them() -> None:
    arena = make_arena(n_candidates=0, n_prompts=0)
    team = make_team()

    mine = {"name": "Mine"}
    assert member_of(team, "owner").patch(f"arenas/{arena.slug}/", mine).status_code == 403
    operator = Caller(user=make_user(is_staff=True))
    assert operator.patch(f"arenas/{arena.slug}/", mine).status_code == 200


def test_a_token_that_may_only_submit_reads_nothing_by_a_change() -> None:
    team = make_team()
    arena = team_arena(team, "private", description="Ours.")
    path, said = f"arenas/{arena.slug}/", {"criteria": "Short."}

    changed = token_of(team, "submit").patch(path, said)

    assert changed.status_code == 200
    told = changed.json()
    assert (told["slug"], told["description"], told["criteria"]) == (arena.slug, None, None)
    assert token_of(team).patch(path, said).json()["description"] == "Ours."


def test_a_change_of_nothing_is_refused() -> None:
    team = make_team()
    empty = member_of(team, "owner").patch(f"arenas/{team_arena(team).slug}/", {})

    assert empty.status_code == 422
    assert "contains no changes" in empty.json()["detail"]
