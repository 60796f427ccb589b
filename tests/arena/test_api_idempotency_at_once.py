"""The same key from several threads at once: carried out once, and everybody gets its answer."""

import threading
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from arena.models import Arena, IdempotentRequest
from arena.services import idempotency
from arena.services.idempotency import FirstRequestRunningError, StoredReply, carry_out_once
from tests.arena.rest import token_of
from tests.deadlocks import at_once
from tests.factories import make_team

pytestmark = pytest.mark.django_db(transaction=True)


def test_ten_at_once_are_carried_out_once() -> None:
    caller = token_of(make_team())

    answers = at_once(*[lambda: caller.post("arenas/", {"name": "A"}, Idempotency_Key="k")] * 10)

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert Arena.objects.count() == 1
    assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == 9


def test_a_waiting_request_does_the_work_if_the_first_fails() -> None:
    started, now = threading.Event(), timezone.now()
    asked: dict[str, Any] = {"owner": "o", "key": "k", "fingerprint": "f", "now": now}

    def fail() -> StoredReply:
        started.set()
        raise ZeroDivisionError

    def after_it() -> StoredReply:
        started.wait()
        return carry_out_once(**asked, work=lambda: StoredReply(201, {}, b"second"))

    first, second = at_once(
        lambda: carry_out_once(**asked, work=fail), after_it, expecting=(ZeroDivisionError,)
    )

    assert isinstance(first, ZeroDivisionError)
    assert second == StoredReply(201, {}, b"second")
    assert IdempotentRequest.objects.count() == 1


def test_a_wait_that_would_be_too_long_is_reported(monkeypatch: Any) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("On SQLite every writer waits for its turn, and is told when that is too long.")
    monkeypatch.setattr(idempotency, "SET_LOCK_TIMEOUT", "SET LOCAL lock_timeout = '50ms'")
    at_work, go_on = threading.Event(), threading.Event()
    asked: dict[str, Any] = {
        "owner": "o",
        "key": "k",
        "fingerprint": "f",
        "now": timezone.now(),
    }

    def long_work() -> StoredReply:
        at_work.set()
        assert go_on.wait(10)
        return StoredReply(201, {}, b"first")

    def meanwhile() -> StoredReply:
        assert at_work.wait(10)
        try:
            return carry_out_once(**asked, work=long_work)
        finally:
            go_on.set()

    first, second = at_once(
        lambda: carry_out_once(**asked, work=long_work),
        meanwhile,
        expecting=(FirstRequestRunningError,),
    )

    assert first.body == b"first"
    assert isinstance(second, FirstRequestRunningError)
