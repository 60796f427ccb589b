"""What all endpoints of the API have in common: actors, problems, pages, ETags."""

import json
from typing import Any
from urllib.parse import unquote

import pytest
from django.test import Client
from django.utils import timezone

from arena.actors import ANONYMOUS
from arena.models import Arena, Membership
from arena.services.tokens import revoke_token
from tests.arena.rest import ROOT, Caller, member_of, team_arena, token_of
from tests.factories import make_arena, make_team, make_user

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def problem(response: Any) -> dict[str, Any]:
    """The problem in a response, checked for what every one must have."""
    assert response.headers["Content-Type"] == "application/problem+json", response.content
    said: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail", "instance"} <= said.keys()
    assert said["status"] == response.status_code
    assert said["type"].startswith("urn:ringside:problem:")
    return said


def test_a_token_identifies_itself(team: Any) -> None:
    said = token_of(team, "read", "submit").get("me/").json()

    assert said["kind"] == "token"
    assert said["scopes"] == ["read", "submit"]
    assert said["teams"] == [{"slug": team.slug, "name": team.name, "role": None}]


def test_the_session_identifies_a_person_and_their_role(team: Any) -> None:
    said = member_of(team, "viewer").get("me/").json()

    assert said["kind"] == "person"
    assert said["teams"] == [{"slug": team.slug, "name": team.name, "role": "viewer"}]


def test_anonymous_requests_get_401_with_a_challenge() -> None:
    refused = Caller().get("me/")

    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert "token" in problem(refused)["detail"]


@pytest.mark.parametrize(
    "header", ["Bearer rs_nosuch", "Bearer", "Bearer ", "Basic YTpi", "rs_x", "Bearer \u00e9", ""]
)
def test_an_unknown_token_is_not_treated_as_anonymous(header: str) -> None:
    refused = Client().get(f"{ROOT}arenas/", headers={"Authorization": header})

    assert refused.status_code == 401
    problem(refused)


def test_a_revoked_token_is_refused(team: Any) -> None:
    caller = token_of(team)
    token = team.tokens.get()
    assert caller.get("me/").status_code == 200
    revoke_token(token=token, by=ANONYMOUS, now=timezone.now())

    assert caller.get("me/").status_code == 401


def test_a_session_writes_with_a_csrf_token_alone(team: Any) -> None:
    user = member_of(team).client
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = user.cookies
    body = {"team": team.slug, "name": "Forged"}

    refused = strict.post(f"{ROOT}arenas/", body, content_type="application/json")

    assert refused.status_code == 403
    assert "CSRF" in problem(refused)["detail"]
    assert not Arena.objects.exists()


def test_a_token_needs_no_csrf_token(team: Any) -> None:
    caller = token_of(team)
    caller.client = Client(enforce_csrf_checks=True)

    assert caller.post("arenas/", {"name": "From CI"}).status_code == 201


def test_a_scope_that_the_token_lacks_is_named(team: Any) -> None:
    refused = token_of(team, "read").post("arenas/", {"name": "No"})

    assert refused.status_code == 403
    assert "submit" in problem(refused)["detail"]
    assert token_of(team, "submit").get("arenas/").status_code == 403


def test_what_is_not_there_is_a_problem_whatever_the_method() -> None:
    for method in ("get", "post", "put", "patch", "delete"):
        for path in ("no/such/path", "arenas/a%0Ab/", "%00"):
            response = getattr(Client(), method)(f"{ROOT}{path}")
            assert response.status_code == 404
            assert problem(response)["instance"] == unquote(f"{ROOT}{path}")


def test_a_method_that_is_not_there_says_which_are() -> None:
    response = Caller().delete("arenas/")

    assert response.status_code == 405
    assert set(response.headers["Allow"].split(", ")) == {"GET", "POST", "HEAD"}
    problem(response)


def test_only_json_goes_in_and_comes_out(team: Any) -> None:
    caller = token_of(team)
    form = caller.client.post(f"{ROOT}arenas/", {"name": "A form"}, headers=caller.headers)
    html = caller.get("arenas/", Accept="text/html")

    assert form.status_code == 415
    assert html.status_code == 406
    problem(form), problem(html)


BAD_BODIES = {
    b"{": "not JSON",
    b'{"name": "\xff"}': "UTF-8",
    b'{"name": "a\\u0000b"}': "NUL",
    b'{"name": "\\ud800"}': "Unicode",
    b'{"name": 1e999}': "number",
    b'{"name": NaN}': "number",
    b'{"name": ' + b"9" * 5000 + b"}": "number",
    b'{"name": ' + b"[" * 60 + b"]" * 60 + b"}": "nested",
    b"[" * 100_000: "nested",
}


@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_body_that_cannot_be_kept_is_refused_with_a_reason(team: Any, body: bytes) -> None:
    caller = token_of(team)

    response = caller.client.post(
        f"{ROOT}arenas/", body, content_type="application/json", headers=caller.headers
    )

    assert response.status_code == 400
    assert BAD_BODIES[body] in problem(response)["detail"]
    assert not Arena.objects.exists()


@pytest.mark.parametrize("body", [[], "text", 7, None, True, {"name": {}}, {"name": ["x"]}])
def test_the_wrong_type_is_a_problem(team: Any, body: Any) -> None:
    caller = token_of(team)

    response = caller.client.post(
        f"{ROOT}arenas/",
        json.dumps(body),
        content_type="application/json",
        headers=caller.headers,
    )

    assert response.status_code == 400
    problem(response)


def test_a_body_that_is_too_large_is_refused(team: Any) -> None:
    response = token_of(team).post("arenas/", {"name": "x" * 1_100_000})

    assert response.status_code == 413
    assert "1 MB" in problem(response)["detail"]


def test_errors_are_pointed_at_and_unknown_members_refused(team: Any) -> None:
    response = token_of(team).post("arenas/", {"name": "A", "visibility": "all", "nmae": "B"})

    assert response.status_code == 400
    assert [error["pointer"] for error in problem(response)["errors"]] == ["#/nmae"]
    response = token_of(team).post("arenas/", {"visibility": "all"})
    pointers = {error["pointer"] for error in problem(response)["errors"]}
    assert pointers == {"#/name", "#/visibility"}


def test_an_internal_error_reveals_nothing_and_is_logged(
    team: Any, monkeypatch: Any, caplog: Any
) -> None:
    def break_down(**anything: Any) -> None:
        raise RuntimeError("the password is xyzzy")

    monkeypatch.setattr("arena.api.arenas.create_team_arena", break_down)

    response = token_of(team).post("arenas/", {"name": "A"})

    assert response.status_code == 500
    assert "xyzzy" not in response.content.decode()
    problem(response)
    assert "xyzzy" in caplog.text


def test_no_secret_is_logged(team: Any, caplog: Any) -> None:
    caller = token_of(team)
    caplog.set_level("DEBUG")

    caller.get("me/")
    caller.get("nope/")
    caller.post("arenas/", {"nope": 1})

    assert caller.headers["Authorization"].split("_")[-1] not in caplog.text


def test_pages_are_followed_to_the_end_without_gaps(team: Any) -> None:
    slugs = [team_arena(team, n_candidates=0, n_prompts=0).slug for _ in range(5)]
    caller, seen, path = Caller(), [], "arenas/?page_size=2"

    while path:
        page = caller.get(path).json()
        seen += [arena["slug"] for arena in page["results"]]
        path = page["next"] and page["next"].partition(ROOT)[2]

    assert seen == slugs


def test_a_page_goes_back_to_where_it_came_from(team: Any) -> None:
    for _ in range(4):
        team_arena(team, n_candidates=0, n_prompts=0)
    first = Caller().get("arenas/?page_size=2").json()
    second = Caller().get(first["next"].partition(ROOT)[2]).json()

    assert Caller().get(second["previous"].partition(ROOT)[2]).json()["results"] == first["results"]
    assert first["previous"] is None
    assert second["next"] is None


@pytest.mark.parametrize(
    "query",
    [
        "page_size=0",
        "page_size=1001",
        "page_size=x",
        "page_size=" + "9" * 5000,
        "cursor=x",
        "cursor=cD1hYmM%3D",  # p=abc
        "cursor=cD0%3D",  # p=
        "cursor=cD0" + "5OTk5" * 10,  # p=999...
        "visibility=everybody",
        "team=%00",
    ],
)
def test_a_query_that_cannot_be_used_is_named(query: str) -> None:
    response = Caller().get(f"arenas/?{query}")

    assert response.status_code == 400
    assert problem(response)["errors"][0]["parameter"] == query.partition("=")[0]


def test_what_has_not_changed_is_not_sent_again(team: Any) -> None:
    arena = team_arena(team)
    first = Caller().get(f"arenas/{arena.slug}/")

    again = Caller().get(f"arenas/{arena.slug}/", If_None_Match=first.headers["ETag"])
    arena.name = "Renamed"
    arena.save()
    changed = Caller().get(f"arenas/{arena.slug}/", If_None_Match=first.headers["ETag"])

    assert (again.status_code, again.content) == (304, b"")
    assert changed.status_code == 200
    assert changed.headers["ETag"] != first.headers["ETag"]
    assert "Authorization" in changed.headers["Vary"]
    assert "private" in changed.headers["Cache-Control"]


def test_a_change_based_on_what_was_read_is_made(team: Any) -> None:
    arena, caller = team_arena(team), member_of(team, "owner")
    etag = caller.get(f"arenas/{arena.slug}/").headers["ETag"]

    for tag in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        response = caller.patch(f"arenas/{arena.slug}/", {"name": arena.name}, If_Match=tag)
        assert response.status_code == 200, tag


def test_a_change_based_on_an_older_state_is_refused(team: Any) -> None:
    arena, caller = team_arena(team), member_of(team, "owner")
    etag = caller.get(f"arenas/{arena.slug}/").headers["ETag"]
    assert caller.patch(f"arenas/{arena.slug}/", {"name": "First"}).status_code == 200

    late = caller.patch(f"arenas/{arena.slug}/", {"name": "Second"}, If_Match=etag)

    assert late.status_code == 412
    problem(late)
    arena.refresh_from_db()
    assert arena.name == "First"


def test_what_was_read_indented_is_the_same_state() -> None:
    team = make_team()
    path = f"arenas/{team_arena(team).slug}/"
    owner = member_of(team, "owner")

    indented = owner.get(path, Accept="application/json; indent=4")

    assert indented.content.startswith(b"{\n    ")
    assert indented.headers["ETag"] == owner.get(path).headers["ETag"]
    etag = indented.headers["ETag"]
    assert owner.patch(path, {"name": "Other"}, If_Match=etag).status_code == 200
    assert owner.patch(path, {"name": "Third"}, If_Match=etag).status_code == 412


def test_each_scope_has_its_limit_for_each_token(team: Any, settings: Any) -> None:
    limits = {"read": 2, "submit": 1}
    settings.API_REQUESTS_PER_MINUTE = settings.API_REQUESTS_PER_MINUTE | limits
    caller, other = token_of(team), token_of(make_team())

    answers = [caller.get("arenas/") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 60
    problem(answers[-1])
    remaining = [answer.headers["RateLimit-Remaining"] for answer in answers]
    assert remaining == ["1", "0", "0"]
    assert {answer.headers["RateLimit-Limit"] for answer in answers} == {"2"}
    assert all(0 < int(answer.headers["RateLimit-Reset"]) <= 60 for answer in answers)
    assert other.get("arenas/").status_code == 200
    written = [caller.post("arenas/", {"name": name}) for name in ("Counted apart", "Once more")]
    assert [answer.status_code for answer in written] == [201, 429]
    assert "submit" in problem(written[-1])["detail"]


def test_new_tokens_do_not_make_more_requests_for_a_team(team: Any, settings: Any) -> None:
    settings.API_REQUESTS_PER_MINUTE = settings.API_REQUESTS_PER_MINUTE | {"read": 2}

    answers = [token_of(team).get("arenas/") for _ in range(7)]

    assert [answer.status_code for answer in answers] == [200] * 6 + [429]
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 60
    detail = problem(answers[-1])["detail"]
    assert detail == "More than 6 requests to read within a minute, by all tokens of this team."
    assert token_of(make_team()).get("arenas/").status_code == 200
    assert member_of(team, "owner").get("arenas/").status_code == 200


def test_what_a_token_is_refused_is_not_counted_for_its_team(team: Any, settings: Any) -> None:
    settings.API_REQUESTS_PER_MINUTE = settings.API_REQUESTS_PER_MINUTE | {"read": 1}
    greedy = token_of(team)

    answers = [greedy.get("arenas/") for _ in range(9)]

    assert [answer.status_code for answer in answers] == [200] + [429] * 8
    assert token_of(team).get("arenas/").status_code == 200


def test_headers_tell_of_the_limit_that_is_nearest(team: Any, settings: Any) -> None:
    settings.API_REQUESTS_PER_MINUTE = settings.API_REQUESTS_PER_MINUTE | {"read": 2}
    for _ in range(5):
        token_of(team).get("arenas/")
    last = token_of(team).get("arenas/")
    assert (last.headers["RateLimit-Limit"], last.headers["RateLimit-Remaining"]) == ("6", "0")


def test_a_repeated_answer_has_the_headers_of_its_own_request(team: Any) -> None:
    caller = token_of(team)
    first, again = (
        caller.post("arenas/", {"name": "Once"}, Idempotency_Key="once") for _ in range(2)
    )
    assert again.headers["Idempotency-Replayed"] == "true"
    left = [int(answer.headers["RateLimit-Remaining"]) for answer in (first, again)]
    assert left[1] == left[0] - 1


def test_what_is_missing_is_named(team: Any) -> None:
    slug, caller = team_arena(team).slug, token_of(team)
    for path, noun, name in (
        ("arenas/nope/", "arena", "nope"),
        ("arenas/nope/candidates/7/", "arena", "nope"),
        (f"arenas/{slug}/candidates/77777/", "candidate", "77777"),
        (f"arenas/{slug}/prompts/p-none/", "prompt", "p-none"),
        ("judge-runs/77777/", "run", "77777"),
    ):
        detail = problem(caller.get(path))["detail"]
        assert detail == f"There is no {noun} “{name}”, or you do not have access to it.", path


def test_limits_ignore_a_forged_address(settings: Any) -> None:
    settings.API_REQUESTS_PER_MINUTE = settings.API_REQUESTS_PER_MINUTE | {"read": 1}

    answers = [Caller().get("arenas/", X_Forwarded_For=f"10.0.0.{i}") for i in range(3)]

    assert [answer.status_code for answer in answers] == [200, 429, 429]


def test_an_operator_sees_every_team() -> None:
    team = make_team()
    caller = Caller(user=make_user(is_staff=True))
    make_arena(n_candidates=0, n_prompts=0)

    assert caller.get(f"teams/{team.slug}/").json()["role"] is None
    assert [one["slug"] for one in caller.get("teams/").json()["results"]] == [team.slug]


def test_an_operator_s_own_teams_are_those_they_are_in(team: Any) -> None:
    operator = make_user(is_staff=True)
    make_team()
    Membership.objects.create(team=team, user=operator, role="member")

    said = Caller(user=operator).get("me/").json()

    assert said["is_operator"] is True
    assert said["teams"] == [{"slug": team.slug, "name": team.name, "role": "member"}]


def test_a_team_that_is_not_yours_is_not_found() -> None:
    mine, other = make_team(), make_team()
    caller = member_of(mine, "owner")

    assert caller.get(f"teams/{mine.slug}/").json() == {
        "slug": mine.slug,
        "name": mine.name,
        "role": "owner",
        "budget": 0.0,
        "committed": 0.0,
    }
    assert caller.get(f"teams/{other.slug}/").status_code == 404
    assert [team["slug"] for team in caller.get("teams/").json()["results"]] == [mine.slug]
