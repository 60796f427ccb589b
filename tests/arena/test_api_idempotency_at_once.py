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
from tests.factories import make_team

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(count: int, work: Any) -> list[Any]:
    """Run `work(i)` in `count` threads that start together; return what each returned."""
    together, answers = threading.Barrier(count), [None] * count

    def run(i: int) -> None:
        together.wait()
        try:
            answers[i] = work(i)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_ten_at_once_are_carried_out_once() -> None:
    caller = token_of(make_team())

    answers = at_once(10, lambda i: caller.post("arenas/", {"name": "A"}, Idempotency_Key="k"))

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert Arena.objects.count() == 1
    assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == 9


def test_whoever_waited_for_one_that_failed_does_the_work() -> None:
    started, now = threading.Event(), timezone.now()
    asked: dict[str, Any] = {"owner": "o", "key": "k", "fingerprint": "f", "now": now}

    def fail() -> StoredReply:
        started.set()
        raise ZeroDivisionError

    def work(i: int) -> Any:
        if i == 0:
            with pytest.raises(ZeroDivisionError):
                carry_out_once(**asked, work=fail)
            return None
        started.wait()
        return carry_out_once(**asked, work=lambda: StoredReply(201, {}, b"second"))

    _, second = at_once(2, work)

    assert second == StoredReply(201, {}, b"second")
    assert IdempotentRequest.objects.count() == 1


def test_who_would_wait_too_long_is_told_so(monkeypatch: Any) -> None:
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

    def work(i: int) -> Any:
        if i == 0:
            return carry_out_once(**asked, work=long_work)
        assert at_work.wait(10)
        try:
            with pytest.raises(FirstRequestRunningError):
                carry_out_once(**asked, work=long_work)
        finally:
            go_on.set()
        return None

    first, _ = at_once(2, work)

    assert first.body == b"first"
