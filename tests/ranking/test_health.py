"""Monitoring: whether a process lives, whether it can serve, and the state of all of Ringside."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import redis
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import InterfaceError, OperationalError, connection
from django.test import Client
from django.utils import timezone
from kombu import Connection
from kombu.exceptions import OperationalError as BrokerError

from arena import __version__
from arena.calls.models import EndpointPace, ModelEndpoint
from arena.calls.paces import note_answered
from arena.endpoints import endpoint_named
from arena.models import Arena, Backup, Hold, RateLimit, Vote
from arena.tasks import disclose_candidates, make_calls, sweep_calls
from ranking import health
from ranking.models import ArenaRefresh, ExportFile
from ranking.services import leases
from tests.factories import make_arena, make_call, make_person, make_user, make_vote
from tests.ranking.helpers import publish, seconds

pytestmark = pytest.mark.django_db
REPOSITORY = Path(__file__).resolve().parents[2]
TOKEN = "a-token-for-monitoring"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(autouse=True)
def monitored(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is set, and nothing was recorded by another test."""
    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(health, "_recorded", {})


@pytest.fixture
def swept(db: None) -> Callable[..., None]:
    """Say how long ago the last sweep of each queue ran; by default, just now."""

    def swept(**ago: float) -> None:
        for queue, age in (dict.fromkeys(health.queues(), 0.0) | ago).items():
            at = timezone.now() - seconds(age)
            RateLimit.objects.create(key=f"sweep:{queue}", window_started_at=at, hits=1)

    return swept


def full(client: Client, **headers: str) -> Any:
    return client.get("/healthz?full", headers=headers or BEARER)


def findings(client: Client) -> str:
    """The sentences of a Ringside in trouble."""
    answer = full(client)
    assert (answer.status_code, answer.json()["status"]) == (503, "trouble")
    return " ".join(answer.json()["findings"])


def raising(error: Exception) -> Callable[..., Any]:
    def work(*_: Any, **__: Any) -> Any:
        raise error

    return work


def test_that_a_process_lives_costs_no_query(
    client: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


def test_ready_means_the_database_and_not_broker_or_workers(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("celery.current_app.connection_for_write", raising(BrokerError("away")))
    assert not RateLimit.objects.exists()
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize("error", [OperationalError("away"), InterfaceError("closed")])
def test_without_a_database_a_process_is_alive_and_not_ready(
    client: Client, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "cursor", raising(error))
    assert client.get("/healthz").status_code == 200
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "the database does not answer"})
    assert findings(client).startswith("The database is not reachable.")


@pytest.mark.parametrize("header", ["", "Bearer ", "Bearer wrong", f"bearer {TOKEN}", TOKEN])
def test_strangers_learn_nothing(client: Client, header: str) -> None:
    answer = client.get("/healthz?full", headers={"Authorization": header} if header else {})
    assert answer.status_code == 403


def test_an_empty_token_lets_nobody_in(client: Client, settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    assert full(client, Authorization="Bearer ").status_code == 403


@pytest.mark.parametrize(("is_staff", "status"), [(False, 403), (True, 200)])
def test_of_those_signed_in_only_staff_may_know_more(
    client: Client, swept: Callable[..., None], is_staff: bool, status: int
) -> None:
    swept()
    client.force_login(make_user("olga", is_staff=is_staff))
    assert client.get("/healthz?full").status_code == status


def test_a_token_costs_no_query_for_an_account(client: Client, swept: Callable[..., None]) -> None:
    swept()
    answer = full(client)
    assert (answer.status_code, answer.json()["status"]) == (200, "well")
    assert answer.json()["findings"] == []
    assert answer.json()["version"] == __version__
    assert answer["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    assert not get_user_model().objects.exists()


def test_a_sweep_is_recorded_for_the_queue_that_it_ran_on(swept: Any) -> None:
    began = timezone.now()
    disclose_candidates.apply(routing_key="fits", throw=True)
    assert RateLimit.objects.get().key == "sweep:fits"
    sweep_calls.apply(routing_key="calls", throw=True)
    assert RateLimit.objects.get(key="sweep:calls").window_started_at >= began


def test_a_sweep_that_fails_and_other_work_are_no_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_calls.apply(["paid"], routing_key="calls")
    monkeypatch.setattr("arena.tasks.candidates.disclose_due", raising(ValueError("broken")))
    assert disclose_candidates.apply(routing_key="fits").failed()
    assert not RateLimit.objects.exists()


def test_sweeps_that_follow_at_once_are_recorded_once(
    django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    health.record_sweep("fits")
    with django_assert_num_queries(0):
        health.record_sweep("fits")
    monkeypatch.setattr(health, "RECORD_EVERY", 0)
    RateLimit.objects.update(window_started_at=timezone.now() - timedelta(days=1))
    health.record_sweep("fits")
    assert RateLimit.objects.get().window_started_at > timezone.now() - seconds(60)


@pytest.mark.parametrize(
    ("answering", "state"),
    [({"fits"}, "is silent"), ({"fits", "calls"}, "answers, but is too busy for sweeps")],
)
def test_a_silent_worker_is_named_by_its_queue(
    client: Client,
    swept: Callable[..., None],
    answering: set[str],
    state: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swept(calls=95)
    monkeypatch.setattr(health, "_queues_answering", lambda: answering)
    said = findings(client)
    assert said.startswith(f"The worker for the queue calls {state}: the last sweep ran 95 s ago. ")
    assert health._restart("calls") in said


@pytest.mark.parametrize(
    ("answering", "said"),
    [
        (
            {"fits", "calls", "sweeps", "exports"},
            "Beat is silent: workers answer, but no sweep reaches them.",
        ),
        (
            {"fits", "sweeps", "exports"},
            "Beat is silent: workers answer, but no sweep reaches them."
            " The worker for the queue calls is silent: no sweep has run yet.",
        ),
        (
            set(),
            "The worker for the queue calls is silent: no sweep has run yet."
            " The worker for the queue exports is silent: no sweep has run yet."
            " The worker for the queue fits is silent: no sweep has run yet."
            " The worker for the queue sweeps is silent: no sweep has run yet.",
        ),
    ],
    ids=["beat", "beat and a worker", "all workers"],
)
def test_beat_is_silent_if_workers_answer_without_sweeps(
    client: Client, answering: set[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_queues_answering", lambda: answering)
    heard = findings(client).replace(f" {health._restart('calls')}", "")
    assert heard.replace(" Restart it: docker compose restart beat.", "") == said


@pytest.mark.parametrize("error", [BrokerError, redis.exceptions.ConnectionError])
def test_a_broker_that_is_down_is_a_finding(
    client: Client, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_redis = Connection("redis://127.0.0.1:1//")
    away = SimpleNamespace(
        conf=SimpleNamespace(worker_enable_remote_control=True),
        control=SimpleNamespace(inspect=raising(error("Connection refused"))),
        connection_for_read=lambda: at_redis,
    )
    monkeypatch.setattr(health, "current_app", away)
    said = findings(client)
    assert said.startswith("The broker is not reachable, so no sweep runs (Connection refused). ")


def settle(arena: Arena) -> None:
    """Bring all boards up to date, an hour ago."""
    publish(arena)
    ArenaRefresh.objects.update(recheck_at=None, finished_at=timezone.now() - seconds(3600))


def test_an_arena_behind_its_votes_is_as_late_as_the_oldest_of_them(
    client: Client, arena: Arena, swept: Callable[..., None]
) -> None:
    swept()
    settle(arena)
    left, right = arena.candidates.all()[:2]
    make_vote(arena, left, right, "left", cast_at=timezone.now() - seconds(300))
    make_vote(arena, left, right, "left")
    said = findings(client)
    assert said.startswith(f"The leaderboards of {arena.slug} have been out of date for 5 minutes")
    assert [late["arena"] for late in full(client).json()["stale_boards"]] == [arena.slug]
    Vote.objects.update(cast_at=timezone.now())
    assert full(client).status_code == 200


def test_a_stale_arena_is_as_late_as_its_first_mark(
    client: Client, arena: Arena, swept: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    swept()
    settle(arena)
    leases.mark_stale(arena_id=arena.pk)
    assert full(client).status_code == 200, "marked just now, however long ago it was refreshed"
    first = timezone.now() - seconds(200)
    ArenaRefresh.objects.update(recheck_at=first)
    leases.mark_stale(arena_id=arena.pk)
    leases.drop_pages(arena_id=arena.pk, is_stale=True)
    assert [since for _, since in health.stale_arenas(timezone.now())] == [first]
    assert "out of date for 3 minutes" in findings(client)


def test_a_mark_made_during_a_refresh_is_as_late_as_its_end(arena: Arena) -> None:
    settle(arena)
    ended = timezone.now() - seconds(3)
    ArenaRefresh.objects.update(is_stale=True, finished_at=ended)
    leases.mark_stale(arena_id=arena.pk)
    assert health.stale_arenas(timezone.now()) == [(arena.slug, ended)]


def test_an_arena_whose_log_was_verified_is_not_late_at_once(
    client: Client, arena: Arena, swept: Callable[..., None]
) -> None:
    swept()
    settle(arena)
    call_command("verify_log", arena.slug)
    assert full(client).status_code == 200
    assert [slug for slug, _ in health.stale_arenas(timezone.now())] == [arena.slug]


def test_pauses_within_their_limits_are_no_finding(
    client: Client, arena: Arena, swept: Callable[..., None]
) -> None:
    swept()
    settle(arena)
    soon = timezone.now() + seconds(1800)
    make_call(due_at=soon, enqueue_after=soon, lease_expires_at=soon)
    make_call(state="done", due_at=soon + timedelta(days=400))
    ArenaRefresh.objects.update(leased_until=soon, not_before=soon, recheck_at=soon)
    assert full(client).json()["future_times"] == []


def in_future(name: str, at: datetime) -> None:
    """Write one time that is too far ahead."""
    if name == "requests_until":
        EndpointPace.objects.create(endpoint="paid", requests_until=at.timestamp())
    elif name == "window_started_at":
        RateLimit.objects.create(key="vote:7", window_started_at=at, hits=1)
    elif name in ("leased_until", "not_before", "recheck_at"):
        ArenaRefresh.objects.update(**{name: at})
    else:
        make_call(**{name: at})


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("due_at", "calls"),
        ("enqueue_after", "calls"),
        ("lease_expires_at", "calls"),
        ("requests_until", "limits of endpoints"),
        ("leased_until", "leaderboard refreshes"),
        ("not_before", "leaderboard refreshes"),
        ("recheck_at", "leaderboard refreshes"),
        ("window_started_at", "rate limits"),
    ],
)
def test_a_time_that_only_a_wrong_clock_wrote_is_a_finding(
    client: Client, arena: Arena, swept: Callable[..., None], name: str, rows: str
) -> None:
    swept()
    settle(arena)
    ArenaRefresh.objects.update(is_stale=False)
    in_future(name, timezone.now() + timedelta(days=2))
    assert f"A clock was wrong: 1 of the {rows} have a time ({name})" in findings(client)
    assert full(client).json()["future_times"] == [{"rows": rows, "time": name, "count": 1}]


@pytest.mark.django_db(transaction=True)
def test_a_database_that_takes_no_writing_is_a_finding() -> None:
    if connection.vendor == "sqlite":
        pytest.skip("tests/ops/test_outage.py fills SQLite's disk")
    assert not any("written" in finding for finding in health.check_health(timezone.now()).findings)
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    findings = health.check_health(timezone.now()).findings
    with connection.cursor() as cursor:
        cursor.execute("RESET default_transaction_read_only")
    assert any("Nothing can be written to the database (cannot" in finding for finding in findings)


@pytest.mark.django_db
@pytest.mark.parametrize(("days", "is_late"), [(2, False), (4, True)])
def test_held_votes_that_nobody_decides_on_are_a_finding(days: int, is_late: bool) -> None:
    now = timezone.now()
    held_at = now - timedelta(days=days)
    fields = {"test": "favours", "evidence": {}, "last_vote_id": 1, "objected_at": held_at}
    Hold.objects.create(arena=make_arena(), rater=make_person(), held_at=held_at, **fields)
    findings = health.check_health(now).findings
    assert any("1 hold, 1 objection" in finding for finding in findings) is is_late


@pytest.mark.django_db
@pytest.mark.parametrize(("days", "is_late"), [(2, False), (4, True)])
def test_a_late_backup_is_a_finding_where_backups_are_made(days: int, is_late: bool) -> None:
    now = timezone.now()
    assert health.check_health(now).seconds_since_backup is None
    Backup.objects.create(made_at=now - timedelta(days=days), size=1, is_encrypted=False)
    checked = health.check_health(now)
    assert checked.seconds_since_backup == days * 86400
    assert any("last backup" in finding for finding in checked.findings) is is_late


def begin_export(arena: Arena, **fields: Any) -> ExportFile:
    """An export that somebody requested ten minutes ago."""
    key = {"arena": arena, "name": "dpo.jsonl", "audience": "team", "version": "1"}
    return ExportFile.objects.create(
        **(key | {"requested_at": timezone.now() - timedelta(minutes=10)} | fields)
    )


def metric(client: Client, name: str) -> str:
    lines = client.get("/metrics", headers=BEARER).text.splitlines()
    return next(line.split()[-1] for line in lines if line.startswith(name))


def test_exports_that_no_worker_builds_are_a_finding(
    client: Client, arena: Arena, swept: Callable[..., None]
) -> None:
    swept()
    settle(arena)
    waits = begin_export(arena)
    said = findings(client)
    assert "No worker builds the exports that wait: 1 export, the oldest for 10 minutes." in said
    assert float(metric(client, "ringside_export_age_seconds")) > 500
    lease = {"token": uuid4(), "leased_until": timezone.now() + seconds(30)}
    begin_export(arena, name="log.jsonl", state="building", **lease)
    assert full(client).status_code == 200, "it waits for its turn"
    ExportFile.objects.exclude(pk=waits.pk).update(leased_until=timezone.now() - seconds(1))
    assert "2 exports" in findings(client)
    ExportFile.objects.all().delete()
    assert full(client).status_code == 200
    assert float(metric(client, "ringside_export_age_seconds")) == 0


def test_an_export_that_failed_is_a_finding_until_it_is_built(
    client: Client, arena: Arena, swept: Callable[..., None]
) -> None:
    swept()
    settle(arena)
    begin_export(arena, state="failed", problem="The server could not store it.")
    begin_export(arena, name="arena.zip", state="failed", problem="The arena is empty.")
    said = findings(client)
    assert "arena.zip" not in said, "its owners can mend that"
    assert f"The export dpo.jsonl of {arena.slug} failed: The server could not store it." in said
    assert f"/a/{arena.slug}/about/#exports" in said
    assert metric(client, 'ringside_exports{state="failed"}') == "1.0"
    ready = {"state": "ready", "built_at": timezone.now(), "digest": "x", "stored_as": "x"}
    begin_export(arena, audience="operators", **ready)
    assert full(client).status_code == 200
    assert metric(client, 'ringside_exports{state="failed"}') == "0.0"


def test_a_late_leaderboard_says_whether_a_queue_has_no_worker(
    client: Client, arena: Arena, swept: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    swept()
    settle(arena)
    answering = {*health.queues(), "large-fits"}
    monkeypatch.setattr(health, "_queues_answering", lambda: answering)
    ArenaRefresh.objects.update(recheck_at=timezone.now() - seconds(300))
    said = findings(client)
    assert f"Refresh them: manage.py refresh_boards {arena.slug}." in said
    assert "large-fits" not in said
    answering.remove("large-fits")
    assert "No worker serves the queue large-fits" in findings(client)
    settle(arena)
    assert full(client).status_code == 200


def test_what_a_worker_is_started_with_again_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    assert health._restart("calls") == "Stop Ringside and start it again."
    conf = SimpleNamespace(worker_enable_remote_control=True)
    monkeypatch.setattr(health, "current_app", SimpleNamespace(conf=conf))
    assert health._restart("calls") == "Restart it: docker compose restart judge-worker."
    compose = (REPOSITORY / "compose.yaml").read_text(encoding="utf-8")
    served = dict(
        re.findall(r"\n  ([\w-]+):\n(?:    .*\n|      .*\n)*?.*--queues=([\w-]+)", compose)
    )
    assert {queue: service for service, queue in served.items()} == health.SERVICES


def test_an_endpoint_that_does_not_answer_is_a_finding_until_it_does(
    client: Client, swept: Callable[..., None]
) -> None:
    swept()
    ModelEndpoint.objects.create(name="house", provider="openai", base_url="http://127.0.0.1:9/v1")
    EndpointPace.objects.create(endpoint="removed", broken=12)
    pace = EndpointPace.objects.create(endpoint="house", broken=9)
    assert full(client).status_code == 200
    EndpointPace.objects.filter(pk=pace.pk).update(broken=10)
    assert full(client).status_code == 200, "nobody waits for it, so nothing would clear it"
    make_call(endpoint="house")
    said = findings(client)
    assert "The endpoint house does not answer: its last 10 requests failed." in said
    assert "removed" not in said
    note_answered(endpoint=endpoint_named("house"))
    assert "does not answer" not in " ".join(full(client).json()["findings"])
