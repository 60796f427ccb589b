"""The clock was a year ahead for seconds, or was set back by an hour: work continues at once."""

import time
from datetime import timedelta
from typing import Any

import pytest
from celery import beat
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena import celery
from arena.actors import CLI
from arena.calls import leases
from arena.calls.models import EndpointPace
from arena.calls.paces import hold, take_turn
from arena.calls.scheduling import free_abandoned
from arena.endpoints import Endpoint
from arena.models import Delivery, Notice, Webhook
from arena.services import clock, deliveries
from arena.services.clock import bring_back_times
from arena.services.comparisons import TIME_TO_VOTE, next_comparison
from arena.services.orders import order_people_run, reconcile_people_run
from arena.services.rate_limits import allow
from tests.arena.ledger import hand_out
from tests.factories import NOW, make_arena, make_call, make_empty_team, make_person, make_run

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
JUMPS = [timedelta(days=365), HOUR + timedelta(seconds=20)]
jumped = pytest.mark.parametrize("ahead", JUMPS)
PACED = Endpoint("paced", "openai", "http://127.0.0.1:9", requests_per_minute=60)


def test_a_clock_that_was_set_is_even_again_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_even = clock.make_clock_check()
    assert is_even()
    wrong = clock.time() + 365 * 24 * 3600
    with monkeypatch.context() as patched:
        patched.setattr(clock, "time", lambda: wrong)
        assert not is_even()
        assert is_even()
    assert not is_even()


@jumped
def test_a_call_to_be_tried_again_is_due(ahead: timedelta) -> None:
    fields = leases.waiting("503", NOW + ahead + leases.LONGEST_PAUSE)
    call = make_call(make_run(), **fields)
    bring_back_times(now=NOW)
    assert hand_out(NOW) == [call.pk]


def test_a_retry_after_of_the_longest_pause_is_respected() -> None:
    at = NOW + leases.LONGEST_PAUSE
    call = make_call(make_run(), **leases.waiting("503", at))
    bring_back_times(now=NOW)
    call.refresh_from_db()
    assert call.due_at == call.enqueue_after == at


def test_a_call_whose_message_was_lost_is_queued_again() -> None:
    call = make_call(make_run())
    assert hand_out(NOW + HOUR) == [call.pk]
    bring_back_times(now=NOW)
    assert hand_out(NOW) == [call.pk]


@jumped
def test_a_call_that_a_killed_worker_held_is_free_within_a_minute(ahead: timedelta) -> None:
    call = make_call(make_run())
    assert leases.claim(call=call, lease=2 * MINUTE, now=NOW + ahead)
    bring_back_times(now=NOW)
    assert free_abandoned(now=NOW) == 0  # the worker may live, and have a reply that costs money
    assert free_abandoned(now=NOW + MINUTE) == 1


def test_a_lease_is_respected(settings: Any) -> None:
    settings.MODEL_ENDPOINTS = {"paced": PACED}
    call = make_call(make_run())
    leases.claim(call=call, lease=timedelta(seconds=2 * PACED.timeout), now=NOW)
    bring_back_times(now=NOW)
    assert free_abandoned(now=NOW + MINUTE) == 0


@jumped
def test_an_endpoint_with_a_limit_answers(ahead: timedelta) -> None:
    assert take_turn(endpoint=PACED, tokens=1, now=NOW + ahead) is None
    hold(endpoint=PACED, until=NOW + ahead)
    bring_back_times(now=NOW)
    assert take_turn(endpoint=PACED, tokens=1, now=NOW + MINUTE) is None


def test_an_endpoint_that_asked_for_the_longest_pause_gets_it() -> None:
    hold(endpoint=PACED, until=NOW + leases.LONGEST_PAUSE)
    before = EndpointPace.objects.values().get()
    bring_back_times(now=NOW)
    assert EndpointPace.objects.values().get() == before


def make_delivery(**fields: Any) -> Delivery:
    team = make_empty_team()
    notice = Notice.objects.create(team=team, key="k", kind="decision.known", details={})
    webhook = Webhook.objects.create(team=team, url="https://example.org/", salt="salt")
    return Delivery.objects.create(notice=notice, webhook=webhook, **{"due_at": NOW} | fields)


@pytest.mark.parametrize("ahead", [timedelta(days=365), HOUR])
@pytest.mark.parametrize(
    ("state", "field"),
    [("waiting", "due_at"), *((s, "lease_expires_at") for s in ("waiting", "running"))],
)
def test_a_delivery_resumes_within_a_minute(ahead: timedelta, state: str, field: str) -> None:
    fields: dict[str, Any] = {field: NOW + ahead, "state": state, "attempts": 1}
    delivery = make_delivery(**fields)
    bring_back_times(now=NOW)
    assert deliveries.take_due_deliveries(now=NOW + MINUTE / 2) == [delivery.pk]


@pytest.mark.parametrize(("attempts", "pause"), list(enumerate(deliveries.PAUSES, start=1)))
def test_the_pauses_of_a_delivery_are_respected(attempts: int, pause: timedelta) -> None:
    delivery = make_delivery(attempts=attempts, due_at=NOW + pause)
    bring_back_times(now=NOW)
    delivery.refresh_from_db()
    assert delivery.due_at == NOW + pause


@jumped
def test_a_limit_reached_meanwhile_is_lifted(ahead: timedelta) -> None:
    def use(now: Any) -> bool:
        return allow(key="ann", limit=1, window=MINUTE, now=now)

    assert use(NOW + ahead)
    assert not use(NOW)
    bring_back_times(now=NOW)
    assert use(NOW)
    assert not use(NOW)
    bring_back_times(now=NOW)
    assert not use(NOW)


def test_a_session_ends_after_its_usual_age() -> None:
    age = timedelta(seconds=settings.SESSION_COOKIE_AGE)
    for key, ahead in (("jumped", timedelta(days=365)), ("usual", timedelta())):
        Session.objects.create(session_key=key, session_data="", expire_date=NOW + age + ahead)
    bring_back_times(now=NOW)
    assert {session.expire_date for session in Session.objects.all()} == {NOW + age}


@jumped
def test_a_run_does_not_wait_for_pairs_issued_meanwhile(ahead: timedelta) -> None:
    arena = make_arena(2, 1)
    run = order_people_run(arena=arena, per_pair=1, by=CLI)
    reconcile_people_run(run=run, now=NOW)
    assert next_comparison(arena=arena, rater=make_person(), now=NOW + ahead)
    reconcile_people_run(run=run, now=NOW)
    comparison = next_comparison(arena=arena, rater=make_person(), now=NOW)
    assert comparison is not None
    assert comparison.run == run
    reconcile_people_run(run=run, now=NOW)  # it waits for this one
    assert run.demands.get().remaining == 0
    assert comparison.expires_at == NOW + TIME_TO_VOTE


def test_nothing_is_written_when_no_time_is_ahead() -> None:
    make_call(make_run())
    with CaptureQueriesContext(connection) as captured:
        bring_back_times(now=NOW)
    assert all(query["sql"].startswith("SELECT") for query in captured)


@jumped
def test_beat_continues_after_the_clock_was_set_back(
    ahead: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    monkeypatch.setattr(
        beat.Scheduler, "apply_async", lambda _, entry, **__: sent.append(entry.name)
    )
    app = celery.Celery("clock", broker="memory://", set_as_current=False)
    app.conf.beat_schedule = {name: {"task": name, "schedule": 0.05} for name in ("a", "b")}
    scheduler = celery.Scheduler(app=app)
    for entry in scheduler.schedule.values():
        entry.last_run_at = timezone.now() + ahead
    scheduler.populate_heap()
    until = time.monotonic() + 60
    while {"a", "b"} - set(sent) and time.monotonic() < until:
        time.sleep(max(0.001, min(scheduler.tick(), 0.1)))
    assert {"a", "b"} <= set(sent)


def test_beat_says_once_that_the_broker_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = celery.Scheduler(app=celery.Celery("away", set_as_current=False), lazy=True)

    def fail(*args: object, **kwargs: object) -> None:
        raise beat.SchedulingError("Couldn't apply") from OSError("refused")

    with monkeypatch.context() as patched:
        patched.setattr(beat.Scheduler, "apply_async", fail)
        for _ in range(3):
            scheduler.apply_entry(None)
    monkeypatch.setattr(beat.Scheduler, "apply_async", lambda *_, **__: None)
    scheduler.apply_entry(None)
    away = "Cannot queue any sweep: the broker is unreachable (refused)."
    assert caplog.messages == [away, "Sweeps are queued again."]
    assert not any(record.exc_info for record in caplog.records)


def test_times_are_restored_four_times_a_minute() -> None:
    schedule = settings.CELERY_BEAT_SCHEDULE["arena.tasks.bring_back_times"]["schedule"]
    assert timedelta(seconds=schedule) + clock.REST_OF_LEASE < MINUTE
