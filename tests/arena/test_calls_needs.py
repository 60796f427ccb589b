"""A call that needs another one's reply waits for it, and ends with it."""

import pytest

from arena.calls.models import Call
from arena.calls.providers.base import RejectedError
from arena.calls.scheduling import sweep
from arena.services.runs import resume_run
from tests.arena.ledger import Model, end, execute, hand_out, must_take, take
from tests.factories import NOW, make_call, make_run

pytestmark = pytest.mark.django_db


def pair() -> tuple[Call, Call]:
    run = make_run()
    first = make_call(run)
    return first, make_call(run, needs=first)


def test_a_call_waits_until_the_one_it_needs_is_done(model: Model) -> None:
    first, second = pair()
    assert take(second) is None
    assert hand_out() == [first.pk]
    execute(first)
    assert hand_out() == [second.pk]
    assert execute(second).state == "done"


@pytest.mark.parametrize("state", ["failed", "refused", "unreadable", "too_long"])
def test_a_call_ends_as_the_one_it_needs_has_ended(state: str) -> None:
    first, second = pair()
    third = make_call(second.run, needs=second)
    end(must_take(first), state, error="Boom.")
    for call in (second, third):
        call.refresh_from_db()
        assert (call.state, call.finished_at, call.requests) == (state, NOW, 0)
        assert call.error.startswith(f"The call that it depends on ended as {state}: ")
    assert second.error.endswith(": Boom.")


def test_it_ends_in_the_same_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    from arena.calls import leases

    first, _ = pair()
    held = must_take(first)

    def die(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(leases, "end_dependents", die)
    with pytest.raises(KeyboardInterrupt):
        end(held, "failed")
    assert set(Call.objects.values_list("state", flat=True)) == {"running", "waiting"}


def test_the_sweep_ends_what_was_written_after_the_failure() -> None:
    first, second = pair()
    Call.objects.filter(pk=first.pk).update(state="refused", error="No.")
    sweep(now=NOW)
    second.refresh_from_db()
    assert (second.state, second.error) == (
        "refused",
        "The call that it depends on ended as refused: No.",
    )


def test_both_wait_again_when_the_run_continues(model: Model) -> None:
    model.outcomes = [RejectedError("HTTP 400")]
    first, second = pair()
    execute(first)
    resume_run(run_id=first.run_id, now=NOW)
    assert execute(first).state == "done"
    assert execute(second).state == "done"
