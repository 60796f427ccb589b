"""Two orders of one candidate's answers at the same moment: one of them becomes a run."""

import threading
from typing import Any

import pytest
from django.db import connection

from arena.models import Candidate, Run
from tests.arena.rest import Caller, token_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_doorbell")]


def order(caller: Caller, candidate: Candidate, **headers: str) -> Any:
    path = f"arenas/{candidate.arena.slug}/candidates/{candidate.pk}/answers/"
    return caller.post(path, {}, **headers)


@pytest.mark.parametrize("headers", [{"Idempotency_Key": "second"}, {}], ids=["key", "no key"])
def test_an_order_that_is_not_committed_yet_keeps_another_out(
    scripted_candidate: Candidate, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes when the first has opened its run, and nobody else can see that yet."""
    assert scripted_candidate.team is not None
    caller, answers = token_of(scripted_candidate.team), []
    caller.get("arenas/")  # so that the token's use has been noted

    def second() -> None:
        try:
            answers.append(order(caller, scripted_candidate, **headers))
        finally:
            connection.close()

    thread = threading.Thread(target=second)

    def after_the_lock() -> None:
        if thread.ident is not None:  # the second has passed, which is what must not be
            return
        thread.start()
        # On SQLite it waits for its turn to write, until the first has ended.
        thread.join(0.5 if connection.vendor == "sqlite" else 20)

    monkeypatch.setattr("arena.api.runs.enqueue_on_commit", after_the_lock)
    first = order(caller, scripted_candidate, Idempotency_Key="first")
    thread.join(20)

    assert first.status_code == 201, first.content
    assert [answer.status_code for answer in answers] == [422]
    assert Run.objects.get().pk == first.json()["id"]
