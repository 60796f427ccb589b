"""A POST with an Idempotency-Key is carried out once, and every repetition gets the same answer."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from arena.models import Arena, IdempotentRequest, Membership, Role, Team
from arena.services import idempotency
from arena.services.expiry import delete_old_rows
from tests.arena.rest import Caller, member_of, team_arena, token_of
from tests.factories import make_team

pytestmark = pytest.mark.django_db
BODY = {"name": "Once"}


@pytest.fixture
def caller() -> Caller:
    return token_of(make_team())


def make(caller: Caller, key: str = "k1", body: Any = None) -> Any:
    return caller.post("arenas/", body or BODY, Idempotency_Key=key)


def test_the_second_request_gets_the_first_answer_to_the_byte(caller: Caller) -> None:
    first, second = make(caller), make(caller)

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.content == first.content
    assert second.headers["Location"] == first.headers["Location"]
    assert "Idempotency-Replayed" not in first.headers
    assert second.headers["Idempotency-Replayed"] == "true"
    assert Arena.objects.count() == 1


def test_without_a_key_each_request_is_one_of_its_own(caller: Caller) -> None:
    for _ in range(2):
        assert caller.post("arenas/", BODY).status_code == 201

    assert Arena.objects.count() == 2
    assert not IdempotentRequest.objects.exists()


def test_another_request_under_the_key_is_refused(caller: Caller) -> None:
    make(caller)

    other_body = make(caller, body={"name": "Other"})
    other_query = caller.post("arenas/?a=1", BODY, Idempotency_Key="k1")
    other_path = caller.post("arenas/x/comparisons/", BODY, Idempotency_Key="k1")

    for response in (other_body, other_query, other_path):
        assert response.status_code == 422
        assert response.json()["type"] == "urn:ringside:problem:key-of-another-request"
    assert Arena.objects.count() == 1


def test_a_key_is_its_owners_alone(caller: Caller) -> None:
    team = make_team()
    callers = [caller, token_of(team), token_of(team)]

    answers = [make(one).json()["slug"] for one in callers]

    assert len(set(answers)) == 3


def test_a_person_has_keys_too() -> None:
    team = make_team()
    person = member_of(team)
    body = BODY | {"team": team.slug}

    first, second = make(person, body=body), make(person, body=body)

    assert first.content == second.content
    assert Arena.objects.count() == 1


def enter(person: Caller, arena: Arena, **headers: str) -> Any:
    body = {"name": "Once", "system_prompt": "Hush."}
    return person.post(f"arenas/{arena.slug}/candidates/", body, **headers)


@pytest.mark.parametrize("role", ["", Role.VIEWER])
def test_former_members_get_the_same_answer_as_outsiders(role: str) -> None:
    team = make_team()
    arena = team_arena(team, "private")
    person = member_of(team)
    assert enter(person, arena, Idempotency_Key="k1").status_code == 201
    if role:
        Membership.objects.exclude(role=Role.OWNER).update(role=role)
    else:
        Membership.objects.exclude(role=Role.OWNER).delete()

    again, without_key = enter(person, arena, Idempotency_Key="k1"), enter(person, arena)

    assert again.status_code == without_key.status_code == (403 if role else 404)
    assert again.json() == without_key.json()
    assert "Hush." not in again.content.decode()
    assert "Idempotency-Replayed" not in again.headers
    assert IdempotentRequest.objects.get().status == 201, "whoever comes back is answered again"


def test_who_has_joined_another_team_meanwhile_is_answered_again() -> None:
    team = make_team()
    arena = team_arena(team, "private")
    person = member_of(team)
    first = enter(person, arena, Idempotency_Key="k1")
    user = Membership.objects.exclude(role=Role.OWNER).get().user
    Membership.objects.create(team=make_team(), user=user, role=Role.MEMBER)

    again = enter(person, arena, Idempotency_Key="k1")

    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert arena.candidates.filter(name="Once").count() == 1


def test_a_key_whose_permission_has_changed_writes_nothing() -> None:
    asked: dict[str, Any] = {"owner": "o", "key": "k", "fingerprint": "f", "now": timezone.now()}
    made = []

    def work() -> idempotency.StoredReply:
        made.append(make_team())
        return idempotency.StoredReply(201, {}, str(len(made)).encode())

    idempotency.carry_out_once(**asked, work=work, rights="member")
    again = idempotency.carry_out_once(**asked, work=work, rights="owner")

    assert (again.body, again.is_repeated) == (b"1", True)
    assert Team.objects.count() == 1


def test_a_refusal_is_the_answer_as_well_and_leaves_nothing(caller: Caller) -> None:
    first = make(caller, body={"name": "A", "slug": "new"})
    second = make(caller, body={"name": "A", "slug": "new"})

    assert first.status_code == second.status_code == 422
    assert first.content == second.content
    assert not Arena.objects.exists()


def test_a_fault_is_forgotten_so_the_next_try_is_the_first(
    caller: Caller, monkeypatch: Any
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("arena.api.arenas.reverse", lambda *a, **k: 1 / 0)
        assert make(caller).status_code == 500
    assert not Arena.objects.exists(), "what was written before the fault went with it"
    assert not IdempotentRequest.objects.exists()

    assert make(caller).status_code == 201


def test_an_answer_that_asks_for_patience_is_forgotten(caller: Caller) -> None:
    reply = idempotency.StoredReply(429, {}, b"slow down")
    asked = {"owner": "o", "key": "k", "fingerprint": "f", "now": timezone.now()}

    assert idempotency.carry_out_once(**asked, work=lambda: reply) == reply
    fine = idempotency.carry_out_once(
        **asked, work=lambda: idempotency.StoredReply(200, {}, b"done")
    )

    assert fine.body == b"done"
    assert not fine.is_repeated


def test_a_key_can_be_reused_after_a_day(caller: Caller) -> None:
    make(caller)
    a_day = timezone.now() - timedelta(hours=24, seconds=1)
    IdempotentRequest.objects.update(created_at=a_day)

    assert make(caller, body={"name": "Next day"}).status_code == 201
    assert IdempotentRequest.objects.count() == 1


def test_old_keys_are_forgotten_and_young_ones_are_kept(caller: Caller) -> None:
    make(caller, "old")
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(hours=25))
    make(caller, "young")

    delete_old_rows(now=timezone.now())

    assert [row.key for row in IdempotentRequest.objects.all()] == ["young"]


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "k" * 256, "a\tb"])
def test_a_key_that_cannot_be_kept_is_refused(caller: Caller, key: str) -> None:
    assert make(caller, key).status_code == 400
    assert not Arena.objects.exists()


def test_a_get_takes_no_key(caller: Caller) -> None:
    assert caller.get("arenas/", Idempotency_Key="k1").status_code == 200
    assert not IdempotentRequest.objects.exists()


def test_who_has_no_right_is_refused_before_the_key_is_looked_at() -> None:
    assert make(Caller()).status_code == 401
    assert make(token_of(make_team(), "read")).status_code == 403
    assert not IdempotentRequest.objects.exists()


def test_waiting_for_the_first_request_ends_as_it_began(caller: Caller) -> None:
    """On PostgreSQL the time to wait for a lock is limited for the key's row alone."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no such setting; a writer waits for its turn.")
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        before = cursor.fetchone()
        make(caller)
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == before


def test_a_key_for_a_method_that_is_not_there_is_not_kept(caller: Caller) -> None:
    response = caller.post("me/", {}, Idempotency_Key="k1")

    assert response.status_code == 405
    assert not IdempotentRequest.objects.exists()
