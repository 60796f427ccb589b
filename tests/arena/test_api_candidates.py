"""Candidates in the API: registered, revised, archived, and hidden until they are disclosed."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena.models import AuditEntry, Candidate, Role
from tests.arena.rest import Caller, member_of, token_of, undisclosed
from tests.factories import make_candidate, make_team, make_user

pytestmark = pytest.mark.django_db
SENT = {
    "name": "short",
    "system_prompt": "Answer in one sentence. ",
    "user_template": "{{ prompt }}",
    "endpoint": "scripted",
    "model": "scripted-1",
    "parameters": {"temperature": 0.5},
    "notes": "Tried in May.",
}


def register(caller: Caller, arena: Any, **fields: Any) -> Any:
    return caller.post(f"arenas/{arena.slug}/candidates/", SENT | fields)


@pytest.mark.parametrize(
    ("said", "votes"), [({"private_until_votes": None}, None), ({"private_until_votes": 9}, 9)]
)
def test_a_private_candidates_next_version_says_its_privacy(
    team: Any, arena_of_prompts: Any, said: dict[str, Any], votes: int | None
) -> None:
    caller = token_of(team)
    first = register(caller, arena_of_prompts, private_until_votes=50).json()
    Candidate.objects.update(retired_at=timezone.now())
    path = f"arenas/{arena_of_prompts.slug}/candidates/{first['id']}/versions/"
    silent = caller.post(path, {"notes": "New."})
    assert silent.status_code == 422
    assert "The previous version is still private" in silent.json()["detail"]
    assert Candidate.objects.count() == 1
    made = caller.post(path, {"notes": "New."} | said)
    assert (made.status_code, made.json()["private_until_votes"]) == (201, votes)


def test_a_variant_is_registered(team: Any, arena_of_prompts: Any) -> None:
    response = register(token_of(team), arena_of_prompts)

    said = response.json()
    assert response.status_code == 201
    assert response.headers["Location"].endswith(f"/candidates/{said['id']}/")
    assert said | SENT == said
    assert (said["version"], said["team"]) == (1, team.slug)
    assert Candidate.objects.get().system_prompt == SENT["system_prompt"]


def test_messages_are_registered_revised_and_hidden(team: Any, arena_of_prompts: Any) -> None:
    caller = token_of(team)
    turns = [
        {"role": "user", "content": "2 + 2"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "{{ prompt }}"},
    ]
    texts = {"system_prompt": "", "user_template": ""}
    made = register(caller, arena_of_prompts, messages=turns, private_until_votes=9, **texts)
    assert made.json()["messages"] == turns
    path = f"arenas/{arena_of_prompts.slug}/candidates/{made.json()['id']}/"
    assert Caller().get(path).json()["messages"] is None
    back = caller.post(f"{path}versions/", {"system_prompt": "Be brief."}).json()
    assert (back["messages"], back["system_prompt"]) == (None, "Be brief.")
    both = register(caller, arena_of_prompts, name="both", messages=turns)
    assert both.status_code == 422
    assert "messages" in both.text


def test_a_person_enters_for_the_arena_s_team_or_the_one_named(
    team: Any, arena_of_prompts: Any
) -> None:
    member = member_of(team)

    assert register(member, arena_of_prompts).status_code == 201
    assert register(member, arena_of_prompts, name="other", team=team.slug).status_code == 201
    assert register(member_of(team, "viewer"), arena_of_prompts).status_code == 403
    assert register(member_of(make_team()), arena_of_prompts).status_code == 403
    assert register(Caller(), arena_of_prompts).status_code == 401


def test_other_teams_enter_where_the_arena_is_open(team: Any, arena_of_prompts: Any) -> None:
    guest = token_of(make_team())

    assert register(guest, arena_of_prompts).status_code == 403
    arena_of_prompts.open_to_teams = True
    arena_of_prompts.save()
    assert register(guest, arena_of_prompts).status_code == 201
    taken = register(token_of(team), arena_of_prompts)
    assert taken.status_code == 422
    assert taken.json()["errors"][0]["pointer"] == "#/name"


def test_what_a_service_refuses_is_reported(team: Any, arena_of_prompts: Any) -> None:
    refused = {
        "endpoint": "http://169.254.169.254/",
        "user_template": "{{ nope",
        "name": "Undisclosed 7",
    }
    for field, value in refused.items():
        response = register(token_of(team), arena_of_prompts, **{field: value})
        assert response.status_code == 422, field
        assert response.json()["errors"][0]["pointer"] == f"#/{field}"
    assert not Candidate.objects.exists()


def test_an_edit_is_the_next_version_once_there_are_answers(
    team: Any, arena_of_prompts: Any
) -> None:
    caller = token_of(team)
    first = register(caller, arena_of_prompts).json()
    path = f"arenas/{arena_of_prompts.slug}/candidates/{first['id']}/versions/"

    in_place = caller.post(path, {"notes": "Changed."})
    Candidate.objects.get().responses.create(prompt=arena_of_prompts.prompts.first(), text="A")
    second = caller.post(path, {"notes": "Changed again."})
    same = caller.post(path, {"notes": "Changed."})

    assert (in_place.status_code, in_place.json()["id"]) == (200, first["id"])
    assert (second.status_code, second.json()["version"]) == (201, 2)
    assert (same.status_code, same.json()["id"]) == (200, first["id"])
    versions = caller.get(path).json()["results"]
    assert [one["version"] for one in versions] == [1, 2]


def test_retired_is_retired(team: Any, arena_of_prompts: Any) -> None:
    caller = token_of(team)
    made = register(caller, arena_of_prompts).json()
    path = f"arenas/{arena_of_prompts.slug}/candidates/{made['id']}/"

    assert Caller().post(f"{path}retire/").status_code == 401
    assert token_of(make_team()).post(f"{path}retire/").status_code == 403
    retired = caller.post(f"{path}retire/").json()["retired_at"]
    assert caller.post(f"{path}retire/").json()["retired_at"] == retired
    assert retired is not None
    listed = (
        Caller().get(f"arenas/{arena_of_prompts.slug}/candidates/?retired=true").json()["results"]
    )
    assert [one["name"] for one in listed] == ["short"]


def test_several_are_archived_at_once_or_none(team: Any, arena_of_prompts: Any) -> None:
    caller, path = token_of(team), f"arenas/{arena_of_prompts.slug}/candidates/archive/"
    ids = [register(caller, arena_of_prompts, name=name).json()["id"] for name in ("a", "b", "c")]
    guest = make_candidate(arena_of_prompts, "guest", team=make_team()).pk
    before = AuditEntry.objects.count()

    refused = caller.post(path, {"ids": [ids[0], guest, 10**9]})
    assert refused.status_code == 422
    assert refused.json()["errors"] == [
        {
            "pointer": "#/ids",
            "detail": f"Not your team’s candidates in this arena: {guest}, {10**9}.",
        }
    ]
    assert not Candidate.objects.exclude(retired_at=None).exists()
    assert caller.post(path, {"ids": []}).status_code == 400

    archived = caller.post(path, {"ids": ids[:2]})
    assert [(one["id"], bool(one["retired_at"])) for one in archived.json()["candidates"]] == [
        (ids[0], True),
        (ids[1], True),
    ]
    assert caller.post(path, {"ids": ids[:2]}).json() == archived.json()
    assert list(Candidate.objects.active().values_list("pk", flat=True)) == [ids[2], guest]
    entries = AuditEntry.objects.order_by("pk")[before:]
    assert [(entry.action, entry.subject) for entry in entries] == [
        ("retired a candidate", "a"),
        ("retired a candidate", "b"),
    ]


def test_the_arenas_team_retires_a_guest_and_reads_no_more_of_it(
    team: Any, arena_of_prompts: Any
) -> None:
    guests = make_team()
    hidden = undisclosed(arena_of_prompts, team=guests)
    path = f"arenas/{arena_of_prompts.slug}/candidates/{hidden.pk}/retire/"

    assert token_of(make_team()).post(path).status_code == 403
    assert member_of(team, Role.VIEWER).post(path).status_code == 403
    retired = token_of(team).post(path)
    assert retired.status_code == 200
    assert retired.json()["retired_at"] is not None
    assert "secret-recipe" not in retired.content.decode()


def test_a_guest_of_a_closed_arena_writes_nothing_and_retires(
    team: Any, arena_of_prompts: Any
) -> None:
    guests = make_team()
    theirs = make_candidate(arena_of_prompts, "theirs", team=guests)
    path, caller = f"arenas/{arena_of_prompts.slug}/candidates/{theirs.pk}/", token_of(guests)

    refused = caller.post(f"{path}versions/", {"notes": "New."})
    assert refused.status_code == 422
    assert "closed to candidates from other teams" in refused.json()["detail"]
    answers = {"responses": [{"prompt_id": "p0", "text": "A"}]}
    assert caller.post(f"{path}responses/", answers).status_code == 422
    assert caller.post(f"{path}retire/").status_code == 200


def everything_strangers_read(arena: Any, candidate: Candidate, caller: Caller) -> str:
    base = f"arenas/{arena.slug}/candidates/"
    paths = [
        base,
        f"{base}{candidate.pk}/",
        f"{base}{candidate.pk}/versions/",
        f"{base}{candidate.pk}/responses/",
        f"{base}{candidate.pk}/answers/",
        f"{base}?retired=false",
    ]
    return "".join(caller.get(path).content.decode() for path in paths)


def test_strangers_see_a_mask_until_it_is_disclosed(team: Any, arena_of_prompts: Any) -> None:
    hidden = undisclosed(arena_of_prompts, team=team, model="secret-model", notes="secret-notes")
    strangers = [Caller(), token_of(make_team()), member_of(make_team())]

    for stranger in strangers:
        seen = everything_strangers_read(arena_of_prompts, hidden, stranger)
        assert "secret" not in seen
        assert "Hush" not in seen
        assert f"Undisclosed {hidden.pk}" in seen
    own = token_of(team).get(f"arenas/{arena_of_prompts.slug}/candidates/{hidden.pk}/").json()
    assert (own["name"], own["model"]) == ("secret-recipe", "secret-model")


def test_what_is_hidden_is_not_found_by_its_name_or_team(team: Any, arena_of_prompts: Any) -> None:
    undisclosed(arena_of_prompts, team=team)
    base = f"arenas/{arena_of_prompts.slug}/candidates/"

    def found(caller: Caller, query: str) -> int:
        return len(caller.get(f"{base}?{query}").json()["results"])

    for query in ("name=secret-recipe", f"team={team.slug}"):
        assert found(Caller(), query) == 0
        assert found(token_of(make_team()), query) == 0
        assert found(token_of(team), query) == 1
        assert found(Caller(user=make_user(is_staff=True)), query) == 1


def test_a_hidden_version_is_not_linked_to_the_ones_before(
    team: Any, arena_of_prompts: Any
) -> None:
    known = make_candidate(arena_of_prompts, "known", team=team)
    hidden = undisclosed(arena_of_prompts, team=team, name="known", version=2)
    base = f"arenas/{arena_of_prompts.slug}/candidates/"

    def versions(caller: Caller, pk: int) -> list[int]:
        return [one["id"] for one in caller.get(f"{base}{pk}/versions/").json()["results"]]

    assert versions(Caller(), known.pk) == [known.pk]
    assert versions(Caller(), hidden.pk) == [hidden.pk]
    assert versions(token_of(team), known.pk) == [known.pk, hidden.pk]


def test_the_public_reads_what_is_disclosed_but_no_endpoint(
    team: Any, arena_of_prompts: Any
) -> None:
    pk = register(token_of(team), arena_of_prompts).json()["id"]

    said = Caller().get(f"arenas/{arena_of_prompts.slug}/candidates/{pk}/").json()

    assert said["system_prompt"] == SENT["system_prompt"]
    assert said["endpoint"] is None


def test_the_arena_s_team_does_not_read_its_guest_s_secrets(
    team: Any, arena_of_prompts: Any
) -> None:
    guests = make_team()
    hidden = undisclosed(arena_of_prompts, team=guests)
    path = f"arenas/{arena_of_prompts.slug}/candidates/{hidden.pk}/"

    assert token_of(team).get(path).json()["system_prompt"] is None
    assert token_of(team).get(f"{path}responses/").status_code == 403
    Candidate.objects.filter(pk=hidden.pk).update(disclosed_at=timezone.now())
    assert token_of(team).get(f"{path}responses/").status_code == 200
    assert member_of(guests, Role.VIEWER).get(f"{path}responses/").status_code == 200


def test_a_list_asks_the_database_alike_for_few_and_many(team: Any, arena_of_prompts: Any) -> None:
    caller = token_of(team)
    path = f"arenas/{arena_of_prompts.slug}/candidates/"
    undisclosed(arena_of_prompts, team=team)
    caller.get(path)
    with CaptureQueriesContext(connection) as few:
        caller.get(path)
    for i in range(20):
        undisclosed(arena_of_prompts, team=team, name=f"c{i}")
    with CaptureQueriesContext(connection) as many:
        assert len(caller.get(path).json()["results"]) == 21

    assert len(many) == len(few)


def test_a_token_that_may_only_submit_reads_nothing_by_a_change(
    team: Any, arena_of_prompts: Any
) -> None:
    pk = register(token_of(team), arena_of_prompts).json()["id"]
    path, blind = f"arenas/{arena_of_prompts.slug}/candidates/{pk}/", token_of(team, "submit")

    for caller in (blind, token_of(team)):
        empty = caller.post(path + "versions/", {})
        assert (empty.status_code, "contains no changes" in empty.json()["detail"]) == (422, True)
    for answer in (
        blind.post(path + "versions/", {"endpoint": "scripted"}),
        blind.post(path + "retire/", {}),
        register(blind, arena_of_prompts, name="other"),
    ):
        said = answer.json()
        assert said["name"] in ("short", "other")
        assert {said[name] for name in ("system_prompt", "notes", "model", "endpoint")} == {None}
