"""A database that ends a deadlock or is down: retried, or reported in a sentence."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import InterfaceError, OperationalError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.db import sql
from arena.models import Arena, Comparison, IdempotentRequest, Vote
from arena.services import comparisons
from arena.services.locks import retry_on_deadlock
from tests.arena.rest import token_of
from tests.deadlocks import deadlock, failing
from tests.factories import known, make_person

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_doorbell")]
NEXT = {"outcome": "left", "with_next": "1"}


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False)


def once(monkeypatch: pytest.MonkeyPatch, times: int = 1) -> None:
    """Have the comparisons that are issued next end in a deadlock."""
    monkeypatch.setattr(
        comparisons, "_issue_matchup", failing(comparisons._issue_matchup, times=times)
    )


def vote(client: Client, arena: Arena) -> Any:
    """Vote on the pair on the screen, as htmx does, and ask for the next one."""
    waiting = Comparison.objects.get(votes=None)
    url = reverse("cast_vote", args=[arena.slug, waiting.key])
    return client.post(url, NEXT, headers={"HX-Request": "true"})


def test_a_pair_that_ends_in_a_deadlock_is_drawn_again(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch)
    drawn = comparisons.next_comparison(arena=arena, rater=make_person(), now=timezone.now())
    assert drawn == Comparison.objects.get()


def test_a_vote_undone_with_the_pair_after_it_is_cast_again(
    arena: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(client).get(reverse("vote", args=[arena.slug]))
    once(monkeypatch)
    assert vote(client, arena).status_code == 200
    assert (Vote.objects.count(), Comparison.objects.count()) == (1, 2)


def test_a_request_with_a_key_is_carried_out_again_as_a_whole(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert arena.team is not None
    once(monkeypatch)
    path = f"arenas/{arena.slug}/comparisons/"
    answer = token_of(arena.team).post(path, {"rater": "ann"}, Idempotency_Key="one")
    assert answer.status_code == 200, answer.content
    assert (Comparison.objects.count(), IdempotentRequest.objects.count()) == (1, 1)


def test_within_a_greater_transaction_nothing_is_tried_again() -> None:
    work = retry_on_deadlock(failing(lambda: "done"))
    with pytest.raises(OperationalError), transaction.atomic():
        work()


@pytest.mark.parametrize("error", [OperationalError("locked"), ValidationError("wrong")])
def test_what_is_no_deadlock_is_not_tried_again(error: Exception) -> None:
    tries = []

    def work() -> None:
        tries.append(1)
        raise error

    with pytest.raises(type(error)):
        retry_on_deadlock(work)()
    assert len(tries) == 1


def test_a_second_deadlock_is_reported() -> None:
    with pytest.raises(OperationalError, match="deadlock"):
        retry_on_deadlock(failing(lambda: "done", times=2))()


def test_a_vote_that_cannot_be_taken_can_be_cast_again(
    arena: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(client).get(reverse("vote", args=[arena.slug]))
    with monkeypatch.context() as patch:
        once(patch, times=2)
        answer = vote(client, arena)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "Ringside is busy" in answer.content.decode()
    assert not Vote.objects.exists()
    assert vote(client, arena).status_code == 200


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers.")
def test_a_vote_whose_turn_does_not_come_can_be_cast_again(
    arena: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(client).get(reverse("vote", args=[arena.slug]))
    with sql.turn(), monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.05)
        answer = vote(client, arena)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert not Vote.objects.exists()
    assert vote(client, arena).status_code == 200


def raising(error: Exception) -> Callable[..., Any]:
    def work(**_: Any) -> Any:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OperationalError("server closed the connection"), 503),
        (InterfaceError("the connection is closed"), 503),
        (deadlock(), 503),
        (ZeroDivisionError(), 500),
    ],
    ids=["away", "closed", "deadlock", "our fault"],
)
def test_a_page_says_whether_database_or_ringside_is_to_blame(
    arena: Arena, client: Client, error: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "next_comparison", raising(error))
    answer = known(client).get(reverse("vote", args=[arena.slug]))
    assert answer.status_code == status
    assert ("busy" if status == 503 else "The error is on our side") in answer.text
    answer = known(client).get(
        reverse("vote", args=[arena.slug]), headers={"Accept-Language": "fr"}
    )
    assert ("surchargé" if status == 503 else "L’erreur vient de nous") in answer.text
